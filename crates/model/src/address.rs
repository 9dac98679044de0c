//! Which addresses may be connected to on behalf of users: those of the public Internet, and nothing that this host or its neighbours
//! answer at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the public Internet. The special ones are those of the IANA registries for IPv4 and IPv6; forms of
/// IPv6 that carry an IPv4 address count as that.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        [0 | 10 | 127, ..]              // this network, private, loopback
        | [100, 64..=127, ..]           // behind carriers' NAT, and with it the metadata service of Alibaba
        | [169, 254, ..]                // link-local, and with it the metadata services of clouds
        | [168, 63, 129, 16]            // Azure's host, at every virtual machine: a public address by the registries alone
        | [172, 16..=31, ..]            // private
        | [192, 0, 0 | 2, _]            // protocols, documentation
        | [192, 88, 99, _]              // relays of 6to4
        | [192, 168, ..]                // private
        | [198, 18 | 19, ..]            // benchmarks
        | [198, 51, 100, _]             // documentation
        | [203, 0, 113, _]              // documentation
        | [224..=255, ..] => false,      // multicast, reserved, broadcast
        _ => true,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        (0, 0) if (c, d, e, f) == (0, 0, 0, 0xffff) => v4(g, h), // IPv4 in IPv6's clothes
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => v4(g, h), // NAT64
        (0x2002, _) => v4(b, c),                                 // 6to4
        (0x2001, 0..=0x1ff | 0xdb8) => false, // protocols (Teredo among them), documentation
        (0x3fff, 0..=0xfff) => false,         // documentation
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "168.63.129.15",
            "172.32.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public_address(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.8.8.8",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::168.63.129.16",
            "::7f00:1",
            "::8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::808:808",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!is_public_address(special.parse().unwrap()), "{special}");
        }
    }
}
