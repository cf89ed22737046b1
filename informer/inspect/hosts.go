package inspect

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// WithHosts adds host names by which readers may open the page, such as "debug.example.com". A port,
// and upper or lower case, do not matter. An IP address and localhost are always allowed. "*" allows
// each name: use it only behind a proxy that authenticates readers and keeps the host of their
// requests, because otherwise any website can read the page through a reader's browser.
func WithHosts(names ...string) Option {
	return optionFunc(func(p *Page) {
		for _, name := range names {
			p.hosts = append(p.hosts, hostname(name))
		}
	})
}

// allows reports whether the page answers requests for a host. A website can resolve its own name to
// the address of the page (DNS rebinding), and a visitor's browser then takes the page for a part of
// the website and shows it everything. But the browser still sends the name of the website, and a
// website cannot make it send an address instead.
func (p *Page) allows(host string) bool {
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return true
	}
	for _, allowed := range p.hosts {
		if allowed == "*" || allowed == name {
			return true
		}
	}
	return false
}

// hostname returns a host without its port, brackets and final dot, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// maxHost is the length of the longest name that DNS has.
const maxHost = 253

// refuseHost answers a request for a host that the page does not allow.
func refuseHost(w http.ResponseWriter, host string) {
	name := hostname(host)
	name = name[:min(len(name), maxHost)]
	http.Error(w, fmt.Sprintf("this page of informers is not served for the host %q, because a website could reach it under its own name: "+
		"open it by an IP address or localhost, or allow the name by inspect.WithHosts(%q)", name, name), http.StatusMisdirectedRequest)
}
