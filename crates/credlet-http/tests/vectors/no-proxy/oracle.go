// Writes table.tsv: what Go's own httpproxy makes of NO_PROXY. Run by hand, see README.md.
package main

import (
	"fmt"
	"net"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

func main() {
	lists := []string{
		"", "*", " * ", "foo.com,*", "*,foo.com", "foo.com", ".foo.com", "*.foo.com", "*foo.com", "FOO.com", " foo.com , bar.com ",
		"foo.com:443", "foo.com:6443", ".foo.com:6443", "*.foo.com:443", "foo.com:", ":443", ":", ",,", ".", "*.", "com", ".com",
		"1.2.3.4", "1.2.3.4:443", "1.2.3.4:6443", "1.2.3.4:", "1.2.3", "1.2.3.4/32", "1.2.3.4/8", "1.2.3.4/08", "1.2.3.4/33", "1.2.3.4/+8",
		"1.2.3.4/", "1.2.3.4/8:443", "0.0.0.0/0", "01.2.3.4", "10.0.0.0/8,foo.com", "::/0", "2001:db8::1", "[2001:db8::1]",
		"[2001:db8::1]:6443", "[2001:db8::1]:443", "2001:db8::/32", "2001:DB8::/127", "::ffff:1.2.3.4", "::ffff:1.0.0.0/104",
		"::ffff:1.2.3.4/96", "::ffff:1.2.3.4/95", "[1.2.3.4]:443", "[foo.com]:443", "foo.com]:443", "a:b:c", "localhost", "127.0.0.1",
		"fe80::1", "fe80::/10", "foo.com/8", "xfoo.com",
	}
	hosts := []string{
		"foo.com", "FOO.com", "a.foo.com", "a.b.foo.com", "xfoo.com", "bar.com", "foo.com.", "com", "localhost", "LOCALHOST", "localhost.foo.com",
		"1.2.3.4", "1.2.3.5", "1.9.9.9", "10.1.1.1", "127.0.0.1", "127.9.9.9", "::1", "2001:db8::1", "2001:db8::2", "2001:DB8:0::1",
		"::ffff:1.2.3.4", "::ffff:127.0.0.1", "fe80::1", "fe80::1%eth0", "0.0.0.0",
	}
	fmt.Println("no_proxy\thost\tport\tresult")
	for _, list := range lists {
		for _, host := range hosts {
			for _, port := range []string{"443", "6443"} {
				config := httpproxy.Config{HTTPSProxy: "http://proxy", NoProxy: list}
				through, err := config.ProxyFunc()(&url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)})
				result := "direct"
				if err != nil {
					panic(err)
				} else if through != nil {
					result = "proxy"
				}
				fmt.Printf("%s\t%s\t%s\t%s\n", list, host, port, result)
			}
		}
	}
}
