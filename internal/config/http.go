package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/iii-aws/harness/engine/remote"
)

// HTTP configures the routes of http triggers.
type HTTP struct {
	// Middleware are functions that every request passes first, in this order.
	Middleware []string `yaml:"middleware"`
	// Hosts are names that requests may come for, beside those of this machine, while the server listens on the
	// loopback interface.
	Hosts []string `yaml:"hosts"`
}

// Check tells what is wrong.
func (h *HTTP) Check() (string, string) {
	for _, id := range h.Middleware {
		if strings.TrimSpace(id) == "" {
			return "middleware names a function without an id", "ids of functions"
		}
	}
	for _, host := range h.Hosts {
		if host == "" || strings.ContainsAny(host, "/:* ") {
			return fmt.Sprintf("hosts has %q", host), "names of hosts, without scheme and port"
		}
	}
	return "", ""
}

// Remote configures functions that a web server backs.
type Remote struct {
	// PlainHTTP allows http beside https.
	PlainHTTP bool `yaml:"plain_http"`
	// PrivateNetworks may be reached although they are not public.
	PrivateNetworks []string `yaml:"private_networks"`
	// SecretKeys are the environment variables that a registration may name for its auth: whole names, or beginnings
	// with a star.
	SecretKeys []string `yaml:"secret_keys"`
}

// Check tells what is wrong.
func (r *Remote) Check() (string, string) {
	for _, n := range r.PrivateNetworks {
		if _, err := netip.ParsePrefix(n); err != nil {
			return fmt.Sprintf("private_networks has %q", n), "networks such as 127.0.0.0/8 or fd00::/8"
		}
	}
	for _, key := range r.SecretKeys {
		if remote.CheckKey(key) != nil {
			return fmt.Sprintf("secret_keys has %q", key), "names of environment variables, or their beginnings with a star, such as HOOK_*"
		}
	}
	return "", ""
}

// Networks is PrivateNetworks, which Check has read before.
func (r *Remote) Networks() []netip.Prefix {
	var all []netip.Prefix
	for _, n := range r.PrivateNetworks {
		if p, err := netip.ParsePrefix(n); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}
