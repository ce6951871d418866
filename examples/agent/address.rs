//! Short names for the addresses of stores, without secrets.

/// A name for the server and the database of a URL, and for its user. The password and the options
/// of the connection do not change it.
pub(crate) fn id_of_server(url: &str) -> String {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let before_query = address.split('?').next().unwrap_or(address);

    // A password may contain any of these characters.
    let (credentials, place) = match before_query.rfind('@').or(address.find('@')) {
        Some(at) => (&address[..at], &address[at + 1..]),
        None => ("", address),
    };

    let user = credentials.split(':').next().unwrap_or(credentials);
    let (place, query) = place.split_once('?').unwrap_or((place, ""));
    let names = [
        "user", "host", "hostaddr", "port", "dbname", "db", "options",
    ];
    let is_place = |pair: &&str| names.contains(&pair.split('=').next().unwrap_or(pair));
    let query: Vec<_> = query.split('&').filter(is_place).collect();
    id_of(format!("{user}@{place}?{}", query.join("&")).as_bytes())
}

/// A short name for a place: its FNV-1a hash, which is the same in every build, because files with
/// this name outlive the program.
pub(crate) fn id_of(place: &[u8]) -> String {
    let hash = place.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
