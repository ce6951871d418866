//! The addresses of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address, by the IANA registries of special-purpose addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// An address of the public internet.
    Public,
    /// Inside an organization: RFC 1918, shared (CGNAT) and unique local addresses.
    Private(&'static str),
    /// An address of any other special network, or one where clouds keep credentials.
    Special(&'static str),
}

use AddressKind::{Private, Public, Special};

const METADATA: &str = "a cloud's metadata service";
const PRIVATE: &str = "a private address";

/// Networks of IPv4 that are not public. The first that holds an address decides, so single
/// addresses are first.
const V4: [([u8; 4], u32, AddressKind); 19] = [
    ([100, 100, 100, 200], 32, Special(METADATA)),
    ([168, 63, 129, 16], 32, Special(METADATA)),
    ([192, 0, 0, 192], 32, Special(METADATA)),
    ([169, 254, 169, 254], 32, Special(METADATA)),
    ([0, 0, 0, 0], 8, Special("an address of \"this\" network")),
    ([10, 0, 0, 0], 8, Private(PRIVATE)),
    ([100, 64, 0, 0], 10, Private("a shared (CGNAT) address")),
    ([127, 0, 0, 0], 8, Special("a loopback address")),
    ([169, 254, 0, 0], 16, Special("a link-local address")),
    ([172, 16, 0, 0], 12, Private(PRIVATE)),
    ([192, 0, 0, 0], 24, Special("reserved for protocols")),
    ([192, 0, 2, 0], 24, Special("an address for documentation")),
    ([192, 88, 99, 0], 24, Special("a relay to 6to4")),
    ([192, 168, 0, 0], 16, Private(PRIVATE)),
    ([198, 18, 0, 0], 15, Special("an address for benchmarks")),
    (
        [198, 51, 100, 0],
        24,
        Special("an address for documentation"),
    ),
    (
        [203, 0, 113, 0],
        24,
        Special("an address for documentation"),
    ),
    ([224, 0, 0, 0], 4, Special("a multicast address")),
    (
        [240, 0, 0, 0],
        4,
        Special("a reserved or broadcast address"),
    ),
];

/// Networks of IPv6 that are not public; neither is any outside of 2000::/3.
const V6: [([u16; 8], u32, AddressKind); 24] = [
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, Special(METADATA)),
    (
        [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe],
        128,
        Special(METADATA),
    ),
    ([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, Special(METADATA)),
    (
        [0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200],
        128,
        Special(METADATA),
    ),
    (
        [0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1],
        128,
        Special(METADATA),
    ),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Special(METADATA)),
    (
        [0, 0, 0, 0, 0, 0, 0, 0],
        128,
        Special("the unspecified address"),
    ),
    (
        [0, 0, 0, 0, 0, 0, 0, 1],
        128,
        Special("the loopback address"),
    ),
    (
        [0, 0, 0, 0, 0, 0xffff, 0, 0],
        96,
        Special("an IPv4-mapped address"),
    ),
    (
        [0, 0, 0, 0, 0, 0, 0, 0],
        96,
        Special("an IPv4-compatible address"),
    ),
    (
        [0, 0, 0, 0, 0xffff, 0, 0, 0],
        96,
        Special("an IPv4-translated address"),
    ),
    (
        [0x64, 0xff9b, 1, 0, 0, 0, 0, 0],
        48,
        Special("a local NAT64 address"),
    ),
    (
        [0x100, 0, 0, 0, 0, 0, 0, 0],
        64,
        Special("an address to discard"),
    ),
    (
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        32,
        Special("a Teredo address"),
    ),
    (
        [0x2001, 2, 0, 0, 0, 0, 0, 0],
        48,
        Special("an address for benchmarks"),
    ),
    (
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        23,
        Special("reserved for protocols"),
    ),
    (
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],
        32,
        Special("an address for documentation"),
    ),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Special("a 6to4 address")),
    (
        [0x3fff, 0, 0, 0, 0, 0, 0, 0],
        20,
        Special("an address for documentation"),
    ),
    (
        [0xfc00, 0, 0, 0, 0, 0, 0, 0],
        7,
        Private("a unique local address"),
    ),
    (
        [0xfe80, 0, 0, 0, 0, 0, 0, 0],
        10,
        Special("a link-local address"),
    ),
    (
        [0xfec0, 0, 0, 0, 0, 0, 0, 0],
        10,
        Special("a site-local address"),
    ),
    (
        [0xff00, 0, 0, 0, 0, 0, 0, 0],
        8,
        Special("a multicast address"),
    ),
    (
        [0x5f00, 0, 0, 0, 0, 0, 0, 0],
        16,
        Special("a segment identifier"),
    ),
];

/// The prefix by which hosts with IPv6 alone reach IPv4 addresses.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

pub(super) fn kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> AddressKind {
    let bits = address.to_bits();
    let shared = |network| (bits ^ Ipv4Addr::from(network).to_bits()).leading_zeros();
    listed(&V4, shared).unwrap_or(Public)
}

fn kind_v6(address: Ipv6Addr) -> AddressKind {
    let parts = address.segments();
    if parts.starts_with(&NAT64) {
        return kind_v4(embedded(address));
    }

    let bits = address.to_bits();
    let shared = |network| (bits ^ Ipv6Addr::from(network).to_bits()).leading_zeros();
    if let Some(kind) = listed(&V6, shared) {
        return kind;
    }

    if parts[0] & 0xe000 != 0x2000 {
        return Special("outside the allocated addresses");
    }

    // ISATAP: a router delivers the packet to the embedded IPv4 address.
    if matches!(parts[4], 0 | 0x200) && parts[5] == 0x5efe {
        return Special("an ISATAP address");
    }

    Public
}

/// Returns the kind of the first network that contains an address. `shared` returns the number of
/// leading bits that the address has in common with a network.
fn listed<N: Copy>(
    networks: &[(N, u32, AddressKind)],
    shared: impl Fn(N) -> u32,
) -> Option<AddressKind> {
    let mut networks = networks.iter();
    let (.., kind) = networks.find(|(network, length, _)| shared(*network) >= *length)?;
    Some(*kind)
}

fn embedded(address: Ipv6Addr) -> Ipv4Addr {
    // The cast keeps the last 32 bits.
    Ipv4Addr::from_bits(address.to_bits() as u32)
}
