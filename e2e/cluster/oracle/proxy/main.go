// SPDX-License-Identifier: Apache-2.0

// Command proxy reports which proxy Go's net/http would use for a request with a given environment.
package main

import (
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/credlet/credlet/e2e/cluster/oracle/internal/lines"
)

type query struct {
	Env map[string]string `json:"env"`
	URL string            `json:"url"`
}

type answer struct {
	// Proxy is the address of the proxy, as scheme://host:port.
	Proxy string `json:"proxy,omitempty"`
	// User is the user name and the password, if the URL has any.
	User     *string `json:"user,omitempty"`
	Password *string `json:"password,omitempty"`
	Error    string  `json:"error,omitempty"`
}

func main() { lines.Answer(ask) }

func ask(q *query) any {
	target, err := url.Parse(q.URL)
	if err != nil {
		return answer{Error: "ORACLE: " + err.Error()}
	}
	// The same as httpproxy.FromEnvironment, which reads the environment of this process only.
	first := func(names ...string) string {
		for _, name := range names {
			if value := q.Env[name]; value != "" {
				return value
			}
		}
		return ""
	}
	config := httpproxy.Config{
		HTTPProxy:  first("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: first("HTTPS_PROXY", "https_proxy"),
		NoProxy:    first("NO_PROXY", "no_proxy"),
		CGI:        q.Env["REQUEST_METHOD"] != "",
	}
	proxy, err := config.ProxyFunc()(target)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if proxy == nil {
		return answer{}
	}
	// Default scheme and port of the transport.
	defaults := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	port, known := defaults[proxy.Scheme]
	if !known {
		return answer{Error: "unknown scheme"}
	}
	if p := proxy.Port(); p != "" {
		port = p
	}
	host := proxy.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	a := answer{Proxy: strings.TrimSuffix(proxy.Scheme, "h") + "://" + host + ":" + port}
	if proxy.User != nil {
		name := proxy.User.Username()
		password, _ := proxy.User.Password()
		a.User, a.Password = &name, &password
	}
	return a
}
