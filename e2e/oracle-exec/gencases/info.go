// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

func infoCases() []infoCase {
	var l []infoCase
	add := func(c infoCase) {
		if c.APIVersion == "" {
			c.APIVersion = v1
		}
		if c.InteractiveMode == "" {
			c.InteractiveMode = "IfAvailable"
		}
		l = append(l, c)
	}
	with := func(name string, c cluster) {
		add(infoCase{Name: name, ProvideClusterInfo: true, Cluster: &c})
	}
	config := func(name, raw string) {
		with("config-"+name, cluster{Server: "https://a", Config: &raw})
	}
	full := cluster{
		Server: "https://api.example.com:6443/path", TLSServerName: "sni.example.com", Insecure: true, CAData: []byte("baz"),
		ProxyURL: "http://proxy.example.com:3128", DisableCompression: true, Config: text(`{"b":1,"a":"<&>"}`),
	}

	add(infoCase{Name: "plain"})
	add(infoCase{Name: "plain/v1beta1", APIVersion: v1beta1})
	add(infoCase{Name: "never", InteractiveMode: "Never"})
	add(infoCase{Name: "always", InteractiveMode: "Always"})
	add(infoCase{Name: "mode-unknown", InteractiveMode: "never"})
	l = append(l, infoCase{Name: "mode-empty", APIVersion: v1})
	l = append(l, infoCase{Name: "mode-empty/v1beta1", APIVersion: v1beta1})
	add(infoCase{Name: "mode-odd", InteractiveMode: "a\"\\\n\x01é\u2028<\u200b"})
	add(infoCase{Name: "tty", TTY: true})
	add(infoCase{Name: "tty-never", TTY: true, InteractiveMode: "Never"})
	add(infoCase{Name: "tty-always", TTY: true, InteractiveMode: "Always", ProvideClusterInfo: true, Cluster: &full})
	add(infoCase{Name: "tty-unavailable", TTY: true, StdinUnavailable: true, StdinUnavailableMessage: "taken"})
	add(infoCase{Name: "tty-always-unavailable", TTY: true, StdinUnavailable: true, InteractiveMode: "Always"})
	add(infoCase{Name: "tty-always-unavailable-message", TTY: true, StdinUnavailable: true, StdinUnavailableMessage: "some message", InteractiveMode: "Always"})
	add(infoCase{Name: "always-unavailable-no-tty", StdinUnavailable: true, InteractiveMode: "Always"})
	add(infoCase{Name: "unavailable-no-tty", StdinUnavailable: true})
	add(infoCase{Name: "version-v1alpha1", APIVersion: "client.authentication.k8s.io/v1alpha1"})
	l = append(l, infoCase{Name: "version-empty", InteractiveMode: "Never"})
	add(infoCase{Name: "version-odd", APIVersion: "a\"\n\u2028é"})
	add(infoCase{Name: "version-and-mode-bad", APIVersion: "v2", InteractiveMode: "x"})

	add(infoCase{Name: "full", ProvideClusterInfo: true, Cluster: &full})
	add(infoCase{Name: "full/v1beta1", APIVersion: v1beta1, ProvideClusterInfo: true, Cluster: &full})
	add(infoCase{Name: "full-not-provided", Cluster: &full})
	add(infoCase{Name: "full-not-provided/v1beta1", APIVersion: v1beta1, Cluster: &full})
	add(infoCase{Name: "provided-but-no-cluster", ProvideClusterInfo: true})
	with("cluster-empty", cluster{})
	add(infoCase{Name: "cluster-empty/v1beta1", APIVersion: v1beta1, ProvideClusterInfo: true, Cluster: &cluster{}})
	with("server-controls", cluster{Server: "a\x00\x01\x07\b\t\n\v\f\r\x1b\x1f b\x7f"})
	with("server-c1", cluster{Server: "\u0080\u0085\u009f\u00a0\u00ad"})
	with("server-html", cluster{Server: "https://a/?x=<b>&y='\"\\/"})
	with("server-unicode", cluster{Server: "https://é€😀\u2028\u2029\ufeff\ufffd\uffff\U0010ffff\u200b"})
	with("all-strings-odd", cluster{Server: "<", TLSServerName: ">\"\u2028", ProxyURL: "http://u:p&w@h:1/\t"})
	with("insecure-only", cluster{Server: "https://a", Insecure: true})
	with("compression-only", cluster{Server: "https://a", DisableCompression: true})
	with("ca-one-byte", cluster{CAData: []byte{0xff}})
	with("ca-two-bytes", cluster{CAData: []byte{0xfb, 0xff}})
	with("ca-url-alphabet", cluster{CAData: []byte{0xfb, 0xef, 0xbe, 0xff, 0xff, 0xff, 0x00}})
	with("ca-pem-like", cluster{CAData: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")})
	with("ca-long", cluster{CAData: []byte(strings.Repeat("0123456789abcdef", 256))})

	config("null", `null`)
	config("empty-text", ``)
	config("empty-object", `{}`)
	config("empty-array", `[]`)
	config("string", `"x"`)
	config("number", `1`)
	config("bool", `true`)
	config("spaces", " \t\r\n{ \"b\" : [ 1 , 2 ,\n\n3 ] ,\t\"a\" : { } }\r\n ")
	config("spaces-in-strings", `{"a b":" c  d\t"}`)
	config("key-order", `{"z":1,"a":{"y":2,"b":3},"Z":4,"":5,"10":6,"9":7}`)
	config("duplicate-keys", `{"a":1,"a":2,"b":{"c":1,"c":null}}`)
	config("html", `{"<k>":"a&b","x":["</script>"]}`)
	config("html-escaped-already", `{"a":"\u003c\u003C\u0026\/\u0041"}`)
	config("line-separators", "{\"a\u2028\":\"\u2029\",\"b\":\"\\u2028\"}")
	config("unicode", "{\"é\":\"€😀\ufeff\u007f\u0085\",\"e\":\"\\ud83d\\ude00\\u00e9\\ud800\"}")
	config("escapes", `{"a":"\"\\\b\f\n\r\t\u0000\u001F"}`)
	config("integers", `{"a":9223372036854775807,"b":9223372036854775808,"c":123456789012345678901234567890,"d":-0,"e":-9223372036854775809}`)
	config("floats", `{"a":1.0,"b":1e2,"c":1E+02,"d":1.50,"e":1e400,"f":0.1e-400,"g":-0.0,"h":1.7976931348623157e308,"i":0.000001}`)
	config("nested", strings.Repeat(`{"a":[`, 50)+strings.Repeat(`]}`, 50))
	config("deep-9990", strings.Repeat(`[`, 9990)+strings.Repeat(`]`, 9990))
	config("deep-10001", strings.Repeat(`[`, 10001)+strings.Repeat(`]`, 10001))
	config("kind", `{"kind":"Foo","apiVersion":"example.com/v1","metadata":{"creationTimestamp":null}}`)
	config("object-key", `{"Object":{"a":1}}`)
	config("bad-truncated", `{"a":`)
	config("bad-trailing", `{"a":1} x`)
	config("bad-two", `{} {}`)
	config("bad-comma", `{"a":1,}`)
	config("bad-control", "{\"a\":\"\x01\"}")
	config("bad-number", `{"a":01}`)
	config("bad-escape", `{"a":"\x"}`)
	config("bad-bom", "\ufeff{}")
	config("bad-yaml", "a: 1\n")
	config("only-spaces", "  \n")
	add(infoCase{Name: "config-bad-not-provided", Cluster: &cluster{Server: "https://a", Config: text(`{`)}})
	add(infoCase{Name: "config-key-order/v1beta1", APIVersion: v1beta1, ProvideClusterInfo: true, Cluster: &cluster{Server: "https://a", Config: text(" {\"z\" : 1.0,\"a\":\"<\u2028\"}")}})
	return l
}
