//! Host names as clients see them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The maximum length of a host name, in bytes.
const MAX_HOST: usize = 253;
/// The maximum length of a label of a host name, in bytes.
const MAX_LABEL: usize = 63;

/// Returns the canonical form of a host: lower case, without trailing dots, names beyond ASCII as
/// `xn--..`, addresses in their usual form. `None` for what clients may read otherwise.
pub(super) fn canonical(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => format!("[{address}]"),
        });
    }

    let host = host.trim_end_matches('.');

    // An internationalised name is at most four times as long as its ASCII form.
    if host.len() > 4 * MAX_HOST {
        return None;
    }

    let labels = host.split('.').map(label).collect::<Option<Vec<_>>>()?;
    let is_long = labels.iter().any(|label| label.len() > MAX_LABEL);
    let host = labels.join(".");
    if is_long || host.len() > MAX_HOST {
        return None;
    }

    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");

    // Some parsers read `127.1` or `0x7f000001` as an address.
    (!is_number || host.parse::<Ipv4Addr>().is_ok()).then_some(host)
}

/// Returns the address that clients read in a host of one to four numbers, of which the last fills
/// the rest of the address: `127.1`, `0x7f000001`, `0177.0.0.1`.
pub(super) fn numeric_address(host: &str) -> Option<Ipv4Addr> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let (first, last) = match host.rsplit_once('.') {
        Some((first, last)) => (Some(first), last),
        None => (None, host),
    };
    let mut address = 0_u64;
    let mut free_bits = 32_u32;
    for byte in first.into_iter().flat_map(|numbers| numbers.split('.')) {
        let byte = u8::try_from(number(byte)?).ok()?;
        free_bits = free_bits.checked_sub(8).filter(|bits| *bits > 0)?;
        address = address << 8 | u64::from(byte);
    }

    let last = u64::from(number(last)?);
    if last >> free_bits > 0 {
        return None;
    }
    let address = u32::try_from(address << free_bits | last).ok()?;
    Some(address.into())
}

/// Returns a number as the parts of an address are written: decimal, octal or hexadecimal.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = if let Some(digits) = text.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = text.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        (digits, 8)
    } else {
        (text, 10)
    };
    if radix == 16 && digits.is_empty() {
        return Some(0);
    }
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    is_number.then(|| u32::from_str_radix(digits, radix).ok())?
}

/// Returns `true` if the host is an address, which has no subdomains.
pub(super) fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok()
}

fn label(label: &str) -> Option<String> {
    let lower = label.to_lowercase();
    if lower.is_ascii() {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        return (!lower.is_empty() && lower.bytes().all(is_plain)).then_some(lower);
    }
    if lower.chars().all(stands_for_itself) {
        return Some(format!("xn--{}", punycode(&lower)?));
    }
    None
}

/// Returns `true` if the mapping of internationalised names leaves the letter as it is. Only common
/// alphabets: letters that are composed, wide or look like others have several spellings.
fn stands_for_itself(c: char) -> bool {
    matches!(c,
        'a'..='z' | '0'..='9' | '-'
        | 'ß'..='ö' | 'ø'..='ı' | 'ĵ'..='ľ' | 'ł'..='ň' | 'ŋ'..='ž'
        | 'ά'..='ώ' | 'а'..='џ' | 'א'..='ת' | 'ء'..='غ' | 'ف'..='ي'
        | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | 'ー' | '一'..='\u{9fff}' | '가'..='힣')
}

/// Returns the label by RFC 3492, without its prefix.
fn punycode(label: &str) -> Option<String> {
    const BASE: u32 = 36;
    let digit = |value: u32| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[value as usize]);
    let mut out: String = label.chars().filter(char::is_ascii).collect();
    let basic_count = u32::try_from(out.len()).ok()?;
    let total = u32::try_from(label.chars().count()).ok()?;
    if basic_count > 0 {
        out.push('-');
    }

    let mut n = 128_u32;
    let mut delta = 0_u32;
    let mut bias = 72_u32;
    let mut handled = basic_count;
    while handled < total {
        let next = label.chars().map(u32::from).filter(|c| *c >= n).min()?;
        delta = delta.checked_add((next - n).checked_mul(handled + 1)?)?;
        n = next;
        for c in label.chars().map(u32::from) {
            if c < n {
                delta = delta.checked_add(1)?;
            }

            if c != n {
                continue;
            }

            let mut remaining = delta;
            let mut k = BASE;
            loop {
                let threshold = k.saturating_sub(bias).clamp(1, 26);
                if remaining < threshold {
                    break;
                }

                out.push(digit(
                    threshold + (remaining - threshold) % (BASE - threshold),
                ));
                remaining = (remaining - threshold) / (BASE - threshold);
                k += BASE;
            }

            out.push(digit(remaining));
            bias = adapted(delta, handled + 1, handled == basic_count);
            delta = 0;
            handled += 1;
        }

        delta += 1;
        n += 1;
    }

    Some(out)
}

fn adapted(delta: u32, points: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / points;
    let mut k = 0;
    while delta > 455 {
        delta /= 35;
        k += 36;
    }
    k + 36 * delta / (delta + 38)
}
