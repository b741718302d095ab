package remote

import (
	"net/netip"
	"slices"
)

// reach says which addresses may be dialled: public ones, and the opened networks.
type reach struct{ networks []netip.Prefix }

// metadata are the services that hand out the credentials of a machine in a cloud: AWS, Azure, Google Cloud and others
// (169.254.169.254), AWS over IPv6, of its containers and pods, and Alibaba Cloud.
var metadata = prefixes("169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32", "fd00:ec2::254/128", "fd00:ec2::23/128")

// special are the IPv4 networks that are not public, by
// https://www.iana.org/assignments/iana-ipv4-special-registry.
var special = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")

// global6 is the IPv6 network of public addresses; of it, special6 are not public, by
// https://www.iana.org/assignments/iana-ipv6-special-registry. That includes 6to4, which leads to IPv4 addresses.
var (
	global6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
	// nat64 translates to the IPv4 address in its last four bytes.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, s := range list {
		all[i] = netip.MustParsePrefix(s)
	}
	return all
}

// check refuses an address. The error does not tell which network it is in.
func (r reach) check(addr netip.Addr) error {
	addr = plain(addr)
	if !within(metadata, addr) && (public(addr) || within(r.networks, addr)) {
		return nil
	}
	return &addressError{addr}
}

// plain is the address that is reached: without a zone, and IPv4 out of its forms in IPv6.
func plain(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

func public(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(special, addr)
	}
	return global6.Contains(addr) && !within(special6, addr)
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
