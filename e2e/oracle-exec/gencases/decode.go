// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// In a template @V is the configured apiVersion, @K the JSON members for kind
// and apiVersion, @Y the same as YAML lines.
type decodeList []decodeCase

func (l *decodeList) add(name, version, template string) {
	s := strings.NewReplacer(
		"@V", version,
		"@K", `"kind":"ExecCredential","apiVersion":"`+version+`"`,
		"@Y", "kind: ExecCredential\napiVersion: "+version+"\n",
	).Replace(template)
	c := decodeCase{Name: name, APIVersion: version}
	if utf8.ValidString(s) {
		c.Stdout = &s
	} else {
		c.StdoutBase64 = []byte(s)
	}
	*l = append(*l, c)
}

// one adds a case for v1; both adds one for v1 and one for v1beta1.
func (l *decodeList) one(name, template string) { l.add(name, v1, template) }

func (l *decodeList) both(name, template string) {
	l.add(name, v1, template)
	l.add(name+"/v1beta1", v1beta1, template)
}

func decodeCases(p *pairs) []decodeCase {
	var l decodeList
	shapes(&l)
	versions(&l)
	jsonTypes(&l)
	jsonSyntax(&l)
	yamlSyntax(&l)
	yamlScalars(&l)
	expiries(&l)
	certificates(&l, p)
	return l
}

func shapes(l *decodeList) {
	l.both("token", `{@K,"status":{"token":"tok"}}`)
	l.both("token-newline", `{@K,"status":{"token":"tok"}}`+"\n")
	l.both("token-pretty", "{\n  @K,\n  \"status\": {\n\t\"token\": \"tok\"\r\n  }\n}\n")
	l.both("token-yaml", "@Ystatus:\n  token: tok\n")
	l.both("status-missing", `{@K}`)
	l.both("status-null", `{@K,"status":null}`)
	l.both("status-empty", `{@K,"status":{}}`)
	l.one("token-empty", `{@K,"status":{"token":""}}`)
	l.one("token-null", `{@K,"status":{"token":null}}`)
	l.one("only-expiry", `{@K,"status":{"expirationTimestamp":"2030-01-02T03:04:05Z"}}`)
	l.one("spec-echo", `{@K,"spec":{"interactive":true},"status":{"token":"tok"}}`)
	l.one("spec-full-echo", `{@K,"spec":{"cluster":{"server":"https://a","certificate-authority-data":"YmF6","config":{"x":[1,2]}},"interactive":false},"status":{"token":"tok"}}`)
	l.one("metadata", `{@K,"metadata":{"name":"x","creationTimestamp":null},"status":{"token":"tok"}}`)
	l.one("unknown-fields", `{@K,"x":1,"y":[{"z":null}],"status":{"token":"tok","more":{"a":[1.5e300,true]},"TOKEN":5}}`)
	l.one("unknown-first", `{"":0,"a":"b",@K,"status":{"":{},"token":"tok"}}`)
	l.one("member-order", `{"status":{"token":"tok"},"apiVersion":"@V","kind":"ExecCredential"}`)
	l.one("empty", ``)
	l.one("space", " \n\t\r\n ")
	l.one("newline", "\n")
	l.one("empty-object", `{}`)
	l.one("null", `null`)
	l.one("tilde", `~`)
	l.one("array-empty", `[]`)
	l.one("array", `[{@K,"status":{"token":"tok"}}]`)
	l.one("string", `"tok"`)
	l.one("number", `42`)
	l.one("true", `true`)
	l.one("plain-text", "hello world\n")
	l.one("plain-lines", "Cargo.toml\nLICENSE\nsrc\n")
	l.one("colon-text", "error: no such profile\n")
	l.one("warning-then-json", "WARNING: old configuration\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("warning-plain-then-json", "be careful\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("hash-comment-then-json", "# note\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("slash-comment-then-json", "// note\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("html", "<html><body>login</body></html>\n")
	l.one("protobuf-prefix", "k8s\x00\x0a\x00")
	l.one("protobuf-envelope", "k8s\x00"+field(1, field(1, v1)+field(2, "ExecCredential"))+field(2, `{"kind":"ExecCredential","apiVersion":"`+v1+`","status":{"token":"tok"}}`))
	l.one("protobuf-envelope-v1", "k8s\x00"+field(1, field(1, v1)+field(2, "ExecCredential"))+field(2, "")+field(4, "application/json"))
	l.one("cbor-prefix", "\xd9\xd9\xf7\xa0")
}

func versions(l *decodeList) {
	l.both("no-kind", `{"apiVersion":"@V","status":{"token":"tok"}}`)
	l.both("no-kind-yaml", "apiVersion: @V\nstatus: {token: tok}\n")
	l.one("kind-empty", `{"kind":"","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-null", `{"kind":null,"apiVersion":"@V","status":{"token":"tok"}}`)
	l.both("no-apiversion", `{"kind":"ExecCredential","status":{"token":"tok"}}`)
	l.one("no-apiversion-bad-internal-status", `{"kind":"ExecCredential","Status":5}`)
	l.one("apiversion-empty", `{"kind":"ExecCredential","apiVersion":"","status":{"token":"tok"}}`)
	l.one("apiversion-null", `{"kind":"ExecCredential","apiVersion":null,"status":{"token":"tok"}}`)
	l.one("apiversion-slash", `{"kind":"ExecCredential","apiVersion":"/","status":{"token":"tok"}}`)
	l.one("apiversion-group-only", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io","status":{"token":"tok"}}`)
	l.one("apiversion-group-slash", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/","status":{"token":"tok"}}`)
	l.one("apiversion-version-only", `{"kind":"ExecCredential","apiVersion":"v1","status":{"token":"tok"}}`)
	l.one("apiversion-slash-version", `{"kind":"ExecCredential","apiVersion":"/v1","status":{"token":"tok"}}`)
	l.one("apiversion-two-slashes", `{"kind":"ExecCredential","apiVersion":"@V/x","status":{"token":"tok"}}`)
	l.one("apiversion-v1alpha1", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","status":{"token":"tok"}}`)
	l.one("apiversion-v2", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v2","status":{"token":"tok"}}`)
	l.one("apiversion-internal", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/__internal","Status":{"Token":"tok"}}`)
	l.one("apiversion-upper", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/V1","status":{"token":"tok"}}`)
	l.one("apiversion-space", `{"kind":"ExecCredential","apiVersion":" @V","status":{"token":"tok"}}`)
	l.one("apiversion-other", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"tok"}}`)
	l.add("apiversion-other/v1beta1", v1beta1, `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"tok"}}`)
	l.one("apiversion-number", `{"kind":"ExecCredential","apiVersion":1,"status":{"token":"tok"}}`)
	l.one("kind-number", `{"kind":7,"apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-lower", `{"kind":"execcredential","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-other", `{"kind":"ExecCredentials","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-space", `{"kind":"ExecCredential ","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-list", `{"kind":"ExecCredentialList","apiVersion":"@V","items":[]}`)
	l.one("kind-status-v1", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}`)
	l.one("kind-status-group", `{"kind":"Status","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-listoptions", `{"kind":"ListOptions","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-watchevent", `{"kind":"WatchEvent","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("kind-secret", `{"kind":"Secret","apiVersion":"v1","status":{"token":"tok"}}`)
	l.one("Kind-upper-key", `{"Kind":"Other","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("apiVersion-wrong-case-key", `{"kind":"ExecCredential","apiversion":"@V","status":{"token":"tok"}}`)
	// kind and apiVersion are matched case-insensitively, by Unicode folding
	l.one("fold-KIND-last", `{"kind":"ExecCredential","KIND":"Other","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("fold-KIND-first", `{"KIND":"Other","kind":"ExecCredential","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("fold-KIND-number", `{"KIND":5,"kind":"ExecCredential","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("fold-KIND-null-last", `{"kind":"ExecCredential","KIND":null,"apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("fold-KIND-empty-last", `{"kind":"Other","KIND":"","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("fold-kelvin-kind", "{\"\u212aind\":\"Other\",\"apiVersion\":\"@V\",\"status\":{\"token\":\"tok\"}}")
	l.one("fold-long-s-apiversion", "{\"apiVer\u017fion\":\"@V\",\"status\":{\"token\":\"tok\"}}")
	l.one("fold-APIVERSION-only", `{"APIVERSION":"@V","status":{"token":"tok"}}`)
	l.one("fold-APIVERSION-last-bad", `{@K,"APIVERSION":"x/y","status":{"token":"tok"}}`)
	l.one("fold-APIVERSION-first-bad", `{"APIVERSION":"x/y",@K,"status":{"token":"tok"}}`)
	l.one("fold-yaml-Kind-last", "@YKind: Other\nstatus: {token: tok}\n")
	l.one("fold-yaml-Kind-only", "Kind: Other\napiVersion: @V\nstatus: {token: tok}\n")
	l.one("fold-yaml-apiversion-last", "@Yapiversion: x/y\nstatus: {token: tok}\n")
	l.one("fold-yaml-apiversion-first", "apiversion: x/y\n@Ystatus: {token: tok}\n")
	l.one("fold-yaml-APIVERSION", "@YAPIVERSION: x/y\nstatus: {token: tok}\n")
	l.one("fold-yaml-kelvin", "\u212aind: Other\n@Ystatus: {token: tok}\n")
	l.one("fold-underscore-not", `{"api_version":"@V","status":{"token":"tok"}}`)
	l.add("configured-v1alpha1", "client.authentication.k8s.io/v1alpha1", `{@K,"status":{"token":"tok"}}`)
	l.add("configured-empty", "", `{"status":{"token":"tok"}}`)
}

func jsonTypes(l *decodeList) {
	for _, f := range []string{"token", "clientCertificateData", "clientKeyData", "expirationTimestamp"} {
		for _, v := range []struct{ name, text string }{
			{"number", `5`}, {"bool", `true`}, {"object", `{}`}, {"array", `[]`}, {"null", `null`},
		} {
			if f == "token" {
				l.one("type-token-"+v.name, `{@K,"status":{"token":`+v.text+`}}`)
				continue
			}
			l.one("type-"+f+"-"+v.name, `{@K,"status":{"token":"tok","`+f+`":`+v.text+`}}`)
		}
	}
	l.one("type-token-array-of-one", `{@K,"status":{"token":["tok"]}}`)
	for _, v := range []struct{ name, text string }{
		{"string", `"x"`}, {"number", `5`}, {"bool", `false`}, {"array", `[]`}, {"null", `null`}, {"empty", `{}`},
	} {
		if v.name != "null" && v.name != "empty" {
			l.one("type-status-"+v.name, `{@K,"status":`+v.text+`}`)
		}
		l.one("type-spec-"+v.name, `{@K,"spec":`+v.text+`,"status":{"token":"tok"}}`)
	}
	l.one("type-spec-interactive-string", `{@K,"spec":{"interactive":"true"},"status":{"token":"tok"}}`)
	l.one("type-spec-interactive-null", `{@K,"spec":{"interactive":null},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-string", `{@K,"spec":{"cluster":"x"},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-null", `{@K,"spec":{"cluster":null},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-server-number", `{@K,"spec":{"cluster":{"server":5}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-not-base64", `{@K,"spec":{"cluster":{"server":"","certificate-authority-data":"?"}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-newline", `{@K,"spec":{"cluster":{"certificate-authority-data":"YW\nJj"}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-array", `{@K,"spec":{"cluster":{"certificate-authority-data":[1,2]}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-array-256", `{@K,"spec":{"cluster":{"certificate-authority-data":[256]}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-array-float", `{@K,"spec":{"cluster":{"certificate-authority-data":[1.0]}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-array-string", `{@K,"spec":{"cluster":{"certificate-authority-data":["a"]}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-array-null", `{@K,"spec":{"cluster":{"certificate-authority-data":[null,1]}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-object", `{@K,"spec":{"cluster":{"certificate-authority-data":{}}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-url-alphabet", `{@K,"spec":{"cluster":{"certificate-authority-data":"_w=="}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-loose-bits", `{@K,"spec":{"cluster":{"certificate-authority-data":"/x=="}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-space", `{@K,"spec":{"cluster":{"certificate-authority-data":"YW Jj"}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-ca-null", `{@K,"spec":{"cluster":{"certificate-authority-data":null}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-insecure-string", `{@K,"spec":{"cluster":{"insecure-skip-tls-verify":"true"}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-compression-number", `{@K,"spec":{"cluster":{"disable-compression":1}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-proxy-bool", `{@K,"spec":{"cluster":{"proxy-url":false}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-sni-array", `{@K,"spec":{"cluster":{"tls-server-name":[]}},"status":{"token":"tok"}}`)
	l.one("type-spec-bad-after-status", `{@K,"status":{"token":"tok"},"spec":7}`)
	l.one("type-spec-cluster-ca-unpadded", `{@K,"spec":{"cluster":{"certificate-authority-data":"YWI"}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-config-kind", `{@K,"spec":{"cluster":{"config":{"kind":"Nope","apiVersion":"a/b/c"}}},"status":{"token":"tok"}}`)
	l.one("type-spec-cluster-config-scalar", `{@K,"spec":{"cluster":{"config":5}},"status":{"token":"tok"}}`)
	l.one("type-spec-Interactive-case", `{@K,"spec":{"Interactive":"x"},"status":{"token":"tok"}}`)

	l.both("case-token", `{@K,"status":{"Token":"tok"}}`)
	l.one("case-status", `{@K,"Status":{"token":"tok"}}`)
	l.one("case-both-token", `{@K,"status":{"token":"a","Token":"b","TOKEN":"c"}}`)
	l.one("case-expiry", `{@K,"status":{"token":"tok","ExpirationTimestamp":"nonsense"}}`)
	l.one("case-kelvin", "{@K,\"status\":{\"to\u212aen\":\"tok\"}}")
	l.one("key-escaped", `{@K,"st\u0061tus":{"\u0074oken":"tok"}}`)
}

func jsonSyntax(l *decodeList) {
	l.one("bom-json", "\ufeff{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("bom-json-newline", "\ufeff\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("bom-bom-json", "\ufeff\ufeff{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("bom-after-blank", "\n\ufeff{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("bom-json-tab-indent", "\ufeff{\n\t@K,\n\t\"status\":{\"token\":\"tok\"}}")
	l.one("utf16be", utf16(true, `{"apiVersion":"`+v1+`","status":{"token":"tok"}}`))
	l.one("utf16le", utf16(false, `{"apiVersion":"`+v1+`","status":{"token":"tok"}}`))
	l.one("leading-blank", " \t\r\n\n{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("leading-vertical-tab", "\v{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("leading-form-feed", "\f{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("leading-nbsp", "\u00a0{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("leading-nel", "\u0085{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("leading-nul", "\x00{@K,\"status\":{\"token\":\"tok\"}}")
	l.one("dashes-json", "---\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("dashes-json-same-line", "--- {@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("dashes-json-trailing", "---\n{@K,\"status\":{\"token\":\"tok\"}} x\n")
	l.one("dashes-comment-json", "--- # note\n{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("dashes-touching-json", "---{@K,\"status\":{\"token\":\"tok\"}}\n")
	l.one("dashes-json-two", "---\n{@K,\"status\":{\"token\":\"tok\"}}\n{@K,\"status\":{\"token\":\"two\"}}\n")
	l.one("dashes-json-slash-escape", `--- {@K,"status":{"token":"a\/b"}}`)
	l.one("dashes-json-surrogates", `--- {@K,"status":{"token":"\ud83d\ude00"}}`)
	l.one("dashes-json-duplicate-status", `--- {@K,"status":{"token":"a"},"status":{"expirationTimestamp":"2030-01-02T03:04:05Z"}}`)
	l.one("dashes-json-duplicate-token-null-last", `--- {@K,"status":{"token":"a","token":null}}`)
	l.one("dashes-json-raw-newline", "--- {@K,\"status\":{\"token\":\"a\nb\"}}")
	l.one("dashes-json-raw-tab", "--- {@K,\"status\":{\"token\":\"a\tb\"}}")
	l.one("dashes-json-del", "--- {@K,\"status\":{\"token\":\"a\x7fb\"}}")
	l.one("dashes-json-key-1000", `--- {"`+strings.Repeat("k", 1000)+`":1,@K,"status":{"token":"tok"}}`)
	l.one("dashes-json-key-1100", `--- {"`+strings.Repeat("k", 1100)+`":1,@K,"status":{"token":"tok"}}`)
	l.one("dashes-json-value-5000", `--- {"x":"`+strings.Repeat("v", 5000)+`",@K,"status":{"token":"tok"}}`)
	l.one("dashes-json-big-number", `--- {"x":[1e400,123456789012345678901234567890],@K,"status":{"token":"tok"}}`)
	l.one("bom-json-trailing", "\ufeff{@K,\"status\":{\"token\":\"tok\"}} done")
	l.one("bom-json-trailing-brace", "\ufeff{@K,\"status\":{\"token\":\"tok\"}}}")
	l.one("comment-json-trailing-invalid-utf8", "# x\n{@K,\"status\":{\"token\":\"tok\"}}\n\xff\n")
	l.one("trailing-vertical-tab", "{@K,\"status\":{\"token\":\"tok\"}}\v")
	l.one("trailing-space", "{@K,\"status\":{\"token\":\"tok\"}} \t\r\n\n")
	l.one("trailing-text", `{@K,"status":{"token":"tok"}} done`)
	l.one("trailing-object", `{@K,"status":{"token":"tok"}}{}`)
	l.one("trailing-object-newline", "{@K,\"status\":{\"token\":\"tok\"}}\n{@K,\"status\":{\"token\":\"two\"}}\n")
	l.one("trailing-dashes", "{@K,\"status\":{\"token\":\"tok\"}}\n---\n")
	l.one("trailing-nul", "{@K,\"status\":{\"token\":\"tok\"}}\x00")
	l.one("trailing-bom", "{@K,\"status\":{\"token\":\"tok\"}}\ufeff")
	l.one("trailing-brace", `{@K,"status":{"token":"tok"}}}`)
	l.one("truncated", `{@K,"status":{"token":"tok"`)
	l.one("trailing-comma", `{@K,"status":{"token":"tok",}}`)
	l.one("trailing-comma-end", `{@K,"status":{"token":"tok"},}`)
	l.one("single-quotes", `{'apiVersion':'@V','status':{'token':'tok'}}`)
	l.one("bom-single-quotes", "\ufeff{'apiVersion':'@V','status':{'token':'tok'}}")
	l.one("comment-inside", "{@K, # x\n\"status\":{\"token\":\"tok\"}}")
	l.one("flow-yaml", `{kind: ExecCredential, apiVersion: @V, status: {token: tok}}`)
	l.one("flow-yaml-dashes", "--- {kind: ExecCredential, apiVersion: @V, status: {token: tok}}\n")
	l.one("flow-yaml-dashes-trailing-comma", "--- {kind: ExecCredential, apiVersion: @V, status: {token: tok,},}\n")
	l.one("duplicate-token", `{@K,"status":{"token":"a","token":"b"}}`)
	l.one("duplicate-token-null-last", `{@K,"status":{"token":"a","token":null}}`)
	l.one("duplicate-token-bad-first", `{@K,"status":{"token":5,"token":"b"}}`)
	l.both("duplicate-status-merge", `{@K,"status":{"token":"a"},"status":{"expirationTimestamp":"2030-01-02T03:04:05Z"}}`)
	l.one("duplicate-status-override", `{@K,"status":{"token":"a","expirationTimestamp":"2030-01-02T03:04:05Z"},"status":{"token":"b"}}`)
	l.one("duplicate-status-null-last", `{@K,"status":{"token":"a"},"status":null}`)
	l.one("duplicate-status-null-between", `{@K,"status":{"token":"a"},"status":null,"status":{"expirationTimestamp":"2030-01-02T03:04:05Z"}}`)
	l.one("duplicate-status-empty-last", `{@K,"status":{"token":"a"},"status":{}}`)
	l.one("duplicate-expiry-null-last", `{@K,"status":{"token":"a","expirationTimestamp":"2030-01-02T03:04:05Z","expirationTimestamp":null}}`)
	l.one("duplicate-kind", `{"kind":"Other","kind":"ExecCredential","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("duplicate-kind-bad-last", `{"kind":"ExecCredential","kind":"Other","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("duplicate-kind-null-last", `{"kind":"Other","kind":null,"apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("duplicate-apiversion-bad-first", `{"kind":"ExecCredential","apiVersion":"x/y","apiVersion":"@V","status":{"token":"tok"}}`)
	l.one("duplicate-apiversion-bad-last", `{"kind":"ExecCredential","apiVersion":"@V","apiVersion":"x/y","status":{"token":"tok"}}`)
	l.one("duplicate-unknown", `{@K,"x":1,"x":2,"status":{"token":"tok","y":1,"y":[]}}`)
	l.one("invalid-utf8-token", "{@K,\"status\":{\"token\":\"a\xffb\"}}")
	l.one("invalid-utf8-truncated", "{@K,\"status\":{\"token\":\"a\xe2\x82\"}}")
	l.one("invalid-utf8-surrogate", "{@K,\"status\":{\"token\":\"a\xed\xa0\x80b\"}}")
	l.one("invalid-utf8-overlong", "{@K,\"status\":{\"token\":\"a\xc0\xafb\"}}")
	l.one("invalid-utf8-unknown-field", "{@K,\"x\":\"\xff\",\"status\":{\"token\":\"tok\"}}")
	l.one("invalid-utf8-key", "{@K,\"x\xff\":1,\"status\":{\"token\":\"tok\"}}")
	l.one("invalid-utf8-outside", "{@K,\xff\"status\":{\"token\":\"tok\"}}")
	l.one("nul-in-token", "{@K,\"status\":{\"token\":\"a\x00b\"}}")
	l.one("control-in-token", "{@K,\"status\":{\"token\":\"a\x01b\"}}")
	l.one("newline-in-token", "{@K,\"status\":{\"token\":\"a\nb\"}}")
	l.one("tab-in-token", "{@K,\"status\":{\"token\":\"a\tb\"}}")
	l.one("del-in-token", "{@K,\"status\":{\"token\":\"a\x7fb\"}}")
	l.one("escape-nul", `{@K,"status":{"token":"a\u0000b"}}`)
	l.one("escape-newline", `{@K,"status":{"token":"tok\n"}}`)
	l.one("escape-all", `{@K,"status":{"token":"\"\\\/\b\f\n\r\t\u00e9\u20AC"}}`)
	l.one("escape-pair", `{@K,"status":{"token":"\ud83d\ude00"}}`)
	l.one("escape-lone-high", `{@K,"status":{"token":"a\ud83db"}}`)
	l.one("escape-lone-low", `{@K,"status":{"token":"a\ude00b"}}`)
	l.one("escape-high-high-low", `{@K,"status":{"token":"\ud83d\ud83d\ude00"}}`)
	l.one("escape-bad", `{@K,"status":{"token":"\x41"}}`)
	l.one("escape-short", `{@K,"status":{"token":"\u00"}}`)
	l.one("escape-single-quote", `{@K,"status":{"token":"\'"}}`)
	l.one("token-unicode", `{@K,"status":{"token":"é€😀"}}`)
	l.one("token-line-separator", "{@K,\"status\":{\"token\":\"a\u2028b\"}}")
	l.one("token-noncharacter", "{@K,\"status\":{\"token\":\"a\uffffb\"}}")
	l.one("token-html", `{@K,"status":{"token":"<&>"}}`)
	l.one("token-spaces", `{@K,"status":{"token":"  tok  "}}`)
	l.one("token-only-space", `{@K,"status":{"token":" "}}`)
	l.one("number-odd-unknown", `{@K,"x":[1e400,-0,1E+2,123456789012345678901234567890],"status":{"token":"tok"}}`)
	l.one("number-bad-leading-zero", `{@K,"x":01,"status":{"token":"tok"}}`)
	l.one("number-bad-plus", `{@K,"x":+1,"status":{"token":"tok"}}`)
	l.one("number-bad-dot", `{@K,"x":1.,"status":{"token":"tok"}}`)
	l.one("literal-bad", `{@K,"x":True,"status":{"token":"tok"}}`)
	l.one("literal-nan", `{@K,"x":NaN,"status":{"token":"tok"}}`)
	for _, n := range []int{100, 1000, 9990, 10001} {
		l.one(fmt.Sprintf("nesting-arrays-%d", n), `{@K,"x":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`,"status":{"token":"tok"}}`)
	}
	l.one("nesting-9999", `{@K,"x":`+strings.Repeat("[", 9999)+strings.Repeat("]", 9999)+`,"status":{"token":"tok"}}`)
	l.one("nesting-10000", `{@K,"x":`+strings.Repeat("[", 10000)+strings.Repeat("]", 10000)+`,"status":{"token":"tok"}}`)
	l.one("nesting-objects-500", `{@K,"x":`+strings.Repeat(`{"a":`, 500)+"1"+strings.Repeat("}", 500)+`,"status":{"token":"tok"}}`)
	l.one("nesting-in-spec-500", `{@K,"spec":{"cluster":{"config":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+`}},"status":{"token":"tok"}}`)
}

// field returns a length-delimited protobuf field of up to 16383 bytes.
func field(n byte, s string) string {
	if len(s) < 128 {
		return string([]byte{n<<3 | 2, byte(len(s))}) + s
	}
	return string([]byte{n<<3 | 2, byte(len(s)) | 128, byte(len(s) >> 7)}) + s
}

func utf16(big bool, s string) string {
	var b strings.Builder
	for _, r := range "\ufeff" + s {
		if big {
			b.WriteByte(byte(r >> 8))
			b.WriteByte(byte(r))
		} else {
			b.WriteByte(byte(r))
			b.WriteByte(byte(r >> 8))
		}
	}
	return b.String()
}

func yamlSyntax(l *decodeList) {
	l.one("yaml-dashes", "---\n@Ystatus:\n  token: tok\n")
	l.one("yaml-blank-dashes", "\n\n---\n@Ystatus:\n  token: tok\n")
	l.one("yaml-dashes-dashes", "---\n---\n@Ystatus:\n  token: tok\n")
	l.one("yaml-dots-end", "@Ystatus:\n  token: tok\n...\n")
	l.one("yaml-dots-then-garbage", "@Ystatus:\n  token: tok\n...\n}}} : not yaml [\n")
	l.one("yaml-two-documents", "@Ystatus:\n  token: one\n---\n@Ystatus:\n  token: two\n")
	l.one("yaml-second-bad", "@Ystatus:\n  token: one\n---\n[}\n")
	l.one("yaml-second-tab", "@Ystatus:\n  token: one\n---\n\tx: y\n")
	l.one("yaml-first-empty-comment", "# only a comment\n---\n@Ystatus:\n  token: tok\n")
	l.one("yaml-directive", "%YAML 1.1\n---\n@Ystatus:\n  token: tok\n")
	l.one("yaml-directive-1.2", "%YAML 1.2\n---\n@Ystatus:\n  token: tok\n")
	l.one("yaml-tag-directive", "%TAG !x! tag:example.com,2000:\n---\n@Ystatus:\n  token: !x!foo tok\n")
	l.one("yaml-bom", "\ufeff@Ystatus:\n  token: tok\n")
	l.one("yaml-crlf", "kind: ExecCredential\r\napiVersion: @V\r\nstatus:\r\n  token: tok\r\n")
	l.one("yaml-cr", "kind: ExecCredential\rapiVersion: @V\rstatus:\r  token: tok\r")
	l.one("yaml-no-final-newline", "@Ystatus:\n  token: tok")
	l.one("yaml-comments", "# a\n@Y# b\nstatus: # c\n  # d\n  token: tok # e\n")
	l.one("yaml-hash-in-token", "@Ystatus:\n  token: tok#en\n")
	l.one("yaml-tab-indent", "@Ystatus:\n\ttoken: tok\n")
	l.one("yaml-tab-first", "\tkind: ExecCredential\napiVersion: @V\nstatus: {token: tok}\n")
	l.one("yaml-root-indented", "  kind: ExecCredential\n  apiVersion: @V\n  status: {token: tok}\n")
	l.one("yaml-tab-blank-line", "@Y\t\nstatus:\n  token: tok\n")
	l.one("yaml-tab-trailing", "@Ystatus:\n  token: tok\t\n")
	l.one("yaml-key-1100", strings.Repeat("k", 1100)+": 1\n@Ystatus: {token: tok}\n")
	l.one("yaml-key-1000", strings.Repeat("k", 1000)+": 1\n@Ystatus: {token: tok}\n")
	l.one("yaml-key-two-lines", "@Y\"a\n b\": 1\nstatus: {token: tok}\n")
	l.one("yaml-bom-in-middle", "@Ystatus:\n  token: a\ufeffb\n")
	l.one("yaml-duplicate-key-types", "@Y5: a\n\"5\": b\nstatus: {token: tok}\n")
	l.one("yaml-tab-after-colon", "@Ystatus:\n  token:\ttok\n")
	l.one("yaml-no-space-colon", "@Ystatus:\n  token:tok\n")
	l.one("yaml-colon-in-token", "@Ystatus:\n  token: a:b\n")
	l.one("yaml-colon-space-in-token", "@Ystatus:\n  token: a: b\n")
	l.one("yaml-nul", "@Ystatus:\n  token: a\x00b\n")
	l.one("yaml-control", "@Ystatus:\n  token: a\x01b\n")
	l.one("yaml-del", "@Ystatus:\n  token: a\x7fb\n")
	l.one("yaml-invalid-utf8", "@Ystatus:\n  token: a\xffb\n")
	l.one("yaml-nel", "@Ystatus:\n  token: a\u0085b\n")
	l.one("yaml-line-separator", "@Ystatus:\n  token: a\u2028b\n")
	l.one("yaml-emoji", "@Ystatus:\n  token: é€😀\n")
	l.one("yaml-duplicate-token", "@Ystatus:\n  token: a\n  token: b\n")
	l.one("yaml-duplicate-status", "@Ystatus:\n  token: a\nstatus:\n  expirationTimestamp: \"2030-01-02T03:04:05Z\"\n")
	l.one("yaml-duplicate-status-override", "@Ystatus:\n  token: a\n  expirationTimestamp: \"2030-01-02T03:04:05Z\"\nstatus:\n  token: b\n")
	l.one("yaml-duplicate-kind", "kind: Other\n@Ystatus:\n  token: a\n")
	l.one("yaml-duplicate-bad-type-first", "@Ystatus:\n  token: 5\n  token: b\n")
	l.one("yaml-anchor", "x: &t tok\n@Ystatus:\n  token: *t\n")
	l.one("yaml-anchor-map", "x: &s {token: tok}\n@Ystatus: *s\n")
	l.one("yaml-anchor-after", "@Ystatus:\n  token: *t\nx: &t tok\n")
	l.one("yaml-anchor-redefined", "x: &t a\ny: &t b\n@Ystatus:\n  token: *t\n")
	l.one("yaml-merge", "x: &s {token: tok}\n@Ystatus:\n  <<: *s\n")
	l.one("yaml-merge-override", "x: &s {token: a, expirationTimestamp: \"2030-01-02T03:04:05Z\"}\n@Ystatus:\n  token: b\n  <<: *s\n")
	l.one("yaml-merge-list", "x: &s {token: a}\ny: &u {token: b, clientKeyData: k}\n@Ystatus:\n  <<: [*s, *u]\n")
	l.one("yaml-merge-before", "x: &s {token: a}\n@Ystatus:\n  <<: *s\n  token: b\n")
	l.one("yaml-merge-list-order", "x: &s {token: a}\ny: &u {token: b}\n@Ystatus:\n  <<: [*s, *u]\n")
	l.one("yaml-merge-list-scalar", "@Ystatus:\n  token: tok\n  <<: [5]\n")
	l.one("yaml-merge-null", "@Ystatus:\n  token: tok\n  <<: ~\n")
	l.one("yaml-merge-tag", "x: &s {token: tok}\n@Ystatus:\n  !!merge <<: *s\n")
	l.one("yaml-merge-inline", "@Ystatus:\n  <<: {token: tok}\n")
	l.one("yaml-merge-scalar", "@Ystatus:\n  token: tok\n  <<: 5\n")
	l.one("yaml-merge-top", "x: &s {status: {token: tok}}\n@Y<<: *s\n")
	l.one("yaml-merge-quoted", "x: &s {token: tok}\n@Ystatus:\n  \"<<\": *s\n  clientKeyData: \"\"\n")
	l.one("yaml-complex-key", "@Y? [a, b]\n: c\nstatus:\n  token: tok\n")
	l.one("yaml-question-key", "@Y? status\n: token: tok\n")
	l.one("yaml-key-number", "@Y5: x\nstatus:\n  token: tok\n")
	l.one("yaml-key-bool", "@Yyes: x\nstatus:\n  true: y\n  token: tok\n")
	l.one("yaml-key-null", "@Y~: x\nstatus:\n  token: tok\n")
	l.one("yaml-key-null-empty", "@Y: x\nstatus:\n  token: tok\n")
	l.one("yaml-key-float", "@Y1.5: x\n1e3: y\n.inf: z\nstatus:\n  token: tok\n")
	l.one("yaml-key-timestamp", "@Y2030-01-02: x\nstatus:\n  token: tok\n")
	l.one("yaml-key-quoted", "\"kind\": ExecCredential\n'apiVersion': @V\n\"status\":\n  \"token\": tok\n")
	l.one("yaml-key-space-colon", "kind : ExecCredential\napiVersion : @V\nstatus : {token : tok}\n")
	l.one("yaml-set-tag", "@Yx: !!set {a, b}\nstatus: {token: tok}\n")
	l.one("yaml-status-flow", "@Ystatus: {token: tok, expirationTimestamp: \"2030-01-02T03:04:05Z\"}\n")
	l.one("yaml-status-flow-json", "@Ystatus: {\"token\":\"tok\"}\n")
	l.one("yaml-status-flow-adjacent", "@Ystatus: {\"token\":tok}\n")
	l.one("yaml-status-empty", "@Ystatus:\n")
	l.one("yaml-status-tilde", "@Ystatus: ~\n")
	l.one("yaml-status-list", "@Ystatus:\n- token: tok\n")
	l.one("yaml-root-list", "- kind: ExecCredential\n  apiVersion: @V\n")
	l.one("yaml-wrong-case", "@YStatus:\n  token: tok\n")
	l.one("yaml-unclosed-flow", "@Ystatus: {token: tok\n")
	l.one("yaml-unclosed-quote", "@Ystatus:\n  token: \"tok\n")
	l.one("yaml-bad-indent", "@Ystatus:\n  token: tok\n clientKeyData: x\n")
	l.one("yaml-nesting-flow-100", "@Yx: "+strings.Repeat("[", 100)+strings.Repeat("]", 100)+"\nstatus:\n  token: tok\n")
	l.one("yaml-nesting-flow-10001", "@Yx: "+strings.Repeat("[", 10001)+strings.Repeat("]", 10001)+"\nstatus:\n  token: tok\n")
	l.one("yaml-alias-bomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n@Ystatus:\n  token: tok\n")
	l.one("yaml-alias-self", "x: &x [*x]\n@Ystatus:\n  token: tok\n")
	l.one("yaml-folded-plain", "@Ystatus:\n  token: tok\n    en\n")
	l.one("yaml-unknown-nan", "@Yx: .nan\nstatus:\n  token: tok\n")
	l.one("yaml-unknown-inf", "@Yx: [.inf, -.Inf]\nstatus:\n  token: tok\n")
	l.one("yaml-unknown-binary-bad", "@Yx: !!binary \"?\"\nstatus:\n  token: tok\n")
	l.one("yaml-unknown-int-bad", "@Yx: !!int abc\nstatus:\n  token: tok\n")
	l.one("yaml-unknown-custom-tag", "@Yx: !foo {a: b}\nstatus: !bar\n  token: tok\n")
	l.one("yaml-spec-interactive-yes", "@Yspec: {interactive: yes}\nstatus: {token: tok}\n")
	l.one("yaml-spec-interactive-quoted", "@Yspec: {interactive: \"yes\"}\nstatus: {token: tok}\n")
	l.one("yaml-kind-number-like", "kind: 5\napiVersion: @V\nstatus: {token: tok}\n")
}

func yamlScalars(l *decodeList) {
	for _, s := range []string{
		// booleans of YAML 1.1, and similar strings
		"true", "True", "TRUE", "tRUE", "false", "yes", "Yes", "YES", "no", "on", "On", "off", "OFF", "y", "Y", "n", "N",
		// null forms
		"~", "null", "Null", "NULL", "nULL", "",
		// integers
		"0", "-0", "5", "+5", "-5", "007", "0o7", "08", "0x1F", "0X1F", "0b11", "-0b11", "1_000", "_1", "1_", "0x", "0b", "190:20:30", "1:60",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "123456789012345678901234567890",
		// floats
		"1.5", "1.", ".5", "+.5", "1e3", "1E3", "1e+3", "1.5e", "1e", "1_0.5", "1e400", "0.1e-400", ".inf", "-.inf", "+.INF", ".nan", ".NaN", ".Nan", "inf", "NaN", "0x1p4", "1.0", "1:20.5", "1e-7", "1e21", "123456789.0",
		// timestamps
		"2030-01-02", "2030-1-2", "2030-01-02T03:04:05Z", "2030-01-02t03:04:05z", "2030-01-02 03:04:05", "2030-01-02 03:04:05 +02:00", "2030-13-02", "2030-01-02T3:4:5Z",
		// signs, indicators
		"-", "--", "---x", "-x", "?x", "? x", "!", "!x", "&a", "*a", "@x", "`x`", "%x", "|", ">", "<<", "=", "[x]", "{x}", "x]", ",x", "#x", "x #y", "a,b", "'", "''", "'it''s'", `"a\tb"`, `"\x41\u00e9\U0001F600"`, `"\e\a\v\0"`, `"\N\_\L\P"`, `"\q"`, `"\/"`, `"\ud83d\ude00"`, `'\n'`, `"5"`, `'true'`, `"~"`, "'a\n\n    b'", "\"a\\\n    b\"", "\"a\n    b\"",
		// tags
		"!!str 5", "!!str true", "!!str", "!!str 2030-01-02", "!!int \"5\"", "!!binary dG9r", "!!binary \"/w==\"", "!!bool \"yes\"", "!!null ''", "!!float 5", "!foo 5", "!foo bar", "! 5", "!<tag:yaml.org,2002:str> 5", "!!timestamp 2030-01-02", "!!map {a: b}",
		// block scalars
		"|\n    tok", "|-\n    tok", "|+\n    tok\n\n", ">\n    tok\n    en", ">-\n    tok\n    en", ">-\n    a\n\n    b\n      c\n    d", "|2-\n    tok", "|-\n    5", "|- # note\n    tok", "|\n  tok", "|-\n", "|9\n    tok", "|0\n    tok",
		// ordinary tokens that resemble other types
		"k8s-aws-v1.aHR0cHM6Ly9zdHMuYW1hem9uYXdzLmNvbS8", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "ya29.a0Af_-xyz", "0e1234567890", "1e5e5", "12e03", "deadbeef", "0xdeadbeef", "abc==",
	} {
		l.one("yaml-token "+strings.ReplaceAll(s, "\n", "⏎"), "@Ystatus:\n  token: "+s+"\n")
	}
}

func expiries(l *decodeList) {
	for _, s := range []string{
		"2030-01-02T03:04:05Z", "2030-01-02T03:04:05+02:00", "2030-01-02T03:04:05-02:30", "2030-01-02T03:04:05.123456789Z", "2030-01-02T03:04:05.1Z",
		"2030-01-02T03:04:05.1234567891Z", "2030-01-02T03:04:05.999999999999Z", "2030-01-02T03:04:05.Z", "2030-01-02T03:04:05,123Z", "2030-01-02T03:04:05,Z", "2030-01-02T03:04:05.000Z",
		"2030-01-02T3:04:05Z", "2030-01-02T03:4:05Z", "2030-01-02T03:04:5Z", "2030-1-02T03:04:05Z", "2030-01-2T03:04:05Z", "2030-01-02T3:04:05,5+01:00", "2030-01-02T003:04:05Z",
		"2030-01-02T03:04:05+00:00", "2030-01-02T03:04:05-00:00", "2030-01-02T03:04:05+23:59", "2030-01-02T03:04:05+24:00", "2030-01-02T03:04:05+24:60", "2030-01-02T03:04:05-24:60", "2030-01-02T03:04:05+24:61", "2030-01-02T03:04:05+25:00", "2030-01-02T03:04:05+00:60", "2030-01-02T03:04:05+02:0", "2030-01-02T03:04:05+0200", "2030-01-02T03:04:05+02", "2030-01-02T03:04:05+2:00", "2030-01-02T03:04:05 +02:00", "2030-01-02T03:04:05Z+02:00", "2030-01-02T03:04:05ZZ", "2030-01-02T03:04:05\u221202:00",
		"2030-01-02t03:04:05Z", "2030-01-02T03:04:05z", "2030-01-02t03:04:05z", "2030-01-02 03:04:05Z", "2030-01-02T03:04:05", "2030-01-02T03:04Z", "2030-01-02", " 2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z ", "2030-01-02T03:04:05Z\n", "2030-01-02T 3:04:05Z",
		"2030-06-30T23:59:60Z", "2030-01-02T24:00:00Z", "2030-01-02T23:60:00Z", "2030-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2030-02-30T00:00:00Z", "2030-04-31T00:00:00Z", "2030-13-01T00:00:00Z", "2030-00-01T00:00:00Z", "2030-01-00T00:00:00Z", "2030-01-32T00:00:00Z", "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z",
		"0000-01-01T00:00:00Z", "0000-02-29T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00", "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00.000000001Z", "0000-01-01T00:00:00+24:60", "1969-12-31T23:59:59.5Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999-23:59", "9999-12-31T23:59:59-24:60", "10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "+2030-01-02T03:04:05Z", "999-01-01T00:00:00Z",
		"", "null", "tomorrow", "1700000000", "2030-01-02T03:04:05Zfoo", "2030/01/02T03:04:05Z", "20300102T030405Z", "2030-W01-1T00:00:00Z", "\u0662030-01-02T03:04:05Z", "2030-01-02T03:04:05\u0000Z", "Wed, 02 Jan 2030 03:04:05 GMT", "2030-01-02T03:04:05 UTC",
	} {
		l.one("expiry "+s, `{@K,"status":{"token":"tok","expirationTimestamp":`+quote(s)+`}}`)
	}
	l.both("expiry-null", `{@K,"status":{"token":"tok","expirationTimestamp":null}}`)
	l.add("expiry/v1beta1", v1beta1, `{@K,"status":{"token":"tok","expirationTimestamp":"2030-01-02T03:04:05.5+02:00"}}`)
	l.add("expiry-bad/v1beta1", v1beta1, `{@K,"status":{"token":"tok","expirationTimestamp":"tomorrow"}}`)
	l.one("expiry-integer", `{@K,"status":{"token":"tok","expirationTimestamp":1700000000}}`)
	l.one("expiry-float", `{@K,"status":{"token":"tok","expirationTimestamp":1700000000.5}}`)
	l.one("expiry-escaped", `{@K,"status":{"token":"tok","expirationTimestamp":"2030-01-02T03:04:05\u005a"}}`)
	l.one("expiry-space-around-null", `{@K,"status":{"token":"tok","expirationTimestamp": null }}`)
	l.one("expiry-duplicate", `{@K,"status":{"token":"tok","expirationTimestamp":"2030-01-02T03:04:05Z","expirationTimestamp":"2031-01-02T03:04:05Z"}}`)
	for _, s := range []string{
		`"2030-01-02T03:04:05Z"`, "2030-01-02T03:04:05Z", "2030-01-02T03:04:05+02:00", "2030-01-02T03:04:05.123456789Z", "2030-01-02t03:04:05z", "2030-01-02 03:04:05Z", "2030-01-02 03:04:05", "2030-01-02", "2030-1-2T3:4:5Z", "2030-01-02T3:04:05Z", "'2030-01-02T3:04:05Z'", "~", "", "null", "1700000000", "!!str 2030-01-02T03:04:05Z", "!!timestamp 2030-01-02", "!!timestamp 2030-01-02T03:04:05Z", "!!timestamp 2030-01-02 03:04:05", "!!timestamp \"2030-01-02T03:04:05Z\"", "|-\n    2030-01-02T03:04:05Z", "|\n    2030-01-02T03:04:05Z", ">-\n    2030-01-02T03:04:05Z",
	} {
		l.one("yaml-expiry "+strings.ReplaceAll(s, "\n", "⏎"), "@Ystatus:\n  token: tok\n  expirationTimestamp: "+s+"\n")
	}
}

func certificates(l *decodeList, p *pairs) {
	add := func(f func(name, template string), name, cert, key string) {
		f("cert-"+name, `{@K,"status":{"clientCertificateData":`+quote(cert)+`,"clientKeyData":`+quote(key)+`}}`)
	}
	ec, other := p.EC, p.Other
	add(l.both, "ec-pkcs8", ec.Cert, ec.PKCS8)
	add(l.one, "ec-sec1", ec.Cert, ec.Own)
	add(l.one, "p384-sec1", p.P384.Cert, p.P384.Own)
	add(l.one, "rsa-pkcs1", p.RSA.Cert, p.RSA.Own)
	add(l.one, "rsa-pkcs8", p.RSA.Cert, p.RSA.PKCS8)
	add(l.one, "ed25519", p.Ed25519.Cert, p.Ed25519.PKCS8)
	add(l.both, "mismatch", ec.Cert, other.PKCS8)
	add(l.one, "mismatch-kind", ec.Cert, p.RSA.PKCS8)
	add(l.one, "mismatch-ed25519", p.Ed25519.Cert, ec.PKCS8)
	add(l.one, "chain", ec.Cert+other.Cert, ec.PKCS8)
	add(l.one, "chain-reversed", other.Cert+ec.Cert, ec.PKCS8)
	add(l.one, "chain-bad-second", ec.Cert+block("CERTIFICATE", []byte("nonsense")), ec.PKCS8)
	add(l.one, "chain-bad-first", block("CERTIFICATE", []byte("nonsense"))+ec.Cert, ec.PKCS8)
	add(l.one, "text-around", "subject=x\n\n"+ec.Cert+"\ntrailer\n", "Bag Attributes\n    friendlyName: x\n"+ec.PKCS8+"more\n")
	add(l.one, "crlf", strings.ReplaceAll(ec.Cert, "\n", "\r\n"), strings.ReplaceAll(ec.PKCS8, "\n", "\r\n"))
	add(l.one, "no-final-newline", strings.TrimSuffix(ec.Cert, "\n"), strings.TrimSuffix(ec.PKCS8, "\n"))
	add(l.one, "leading-space", "  "+strings.ReplaceAll(ec.Cert, "\n", "\n  "), ec.PKCS8)
	add(l.one, "one-line", strings.ReplaceAll(ec.Cert, "\n", " "), ec.PKCS8)
	add(l.one, "bom", "\ufeff"+ec.Cert, ec.PKCS8)
	add(l.one, "swapped", ec.PKCS8, ec.Cert)
	add(l.one, "combined", ec.Cert+ec.PKCS8, ec.Cert+ec.PKCS8)
	add(l.one, "combined-key-first", ec.PKCS8+ec.Cert, ec.PKCS8+ec.Cert)
	add(l.one, "two-keys", ec.Cert, ec.PKCS8+other.PKCS8)
	add(l.one, "two-keys-wrong-first", ec.Cert, other.PKCS8+ec.PKCS8)
	add(l.one, "ec-parameters-first", ec.Cert, block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7})+ec.Own)
	add(l.one, "wrong-label-cert", strings.ReplaceAll(ec.Cert, "CERTIFICATE", "X509 CERTIFICATE"), ec.PKCS8)
	add(l.one, "wrong-label-trusted", strings.ReplaceAll(ec.Cert, "CERTIFICATE", "TRUSTED CERTIFICATE"), ec.PKCS8)
	add(l.one, "label-sec1-as-pkcs8", ec.Cert, strings.ReplaceAll(ec.Own, "EC PRIVATE KEY", "PRIVATE KEY"))
	add(l.one, "label-pkcs8-as-rsa", ec.Cert, strings.ReplaceAll(ec.PKCS8, "PRIVATE KEY", "RSA PRIVATE KEY"))
	add(l.one, "label-any-private-key", ec.Cert, strings.ReplaceAll(ec.PKCS8, "PRIVATE KEY", "FOO PRIVATE KEY"))
	add(l.one, "label-encrypted", ec.Cert, strings.ReplaceAll(ec.PKCS8, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"))
	add(l.one, "label-openssh", ec.Cert, block("OPENSSH PRIVATE KEY", []byte("openssh-key-v1\x00")))
	add(l.one, "label-public-key", ec.Cert, strings.ReplaceAll(ec.PKCS8, "PRIVATE KEY", "PUBLIC KEY"))
	add(l.one, "pem-headers", strings.Replace(ec.Cert, "-----\n", "-----\nX-Note: a\n\n", 1), ec.PKCS8)
	add(l.one, "key-proc-type", ec.Cert, strings.Replace(ec.Own, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1))
	add(l.one, "bad-base64-cert", "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n", ec.PKCS8)
	add(l.one, "bad-base64-then-good", "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n"+ec.Cert, ec.PKCS8)
	add(l.one, "bad-der-key", ec.Cert, block("PRIVATE KEY", []byte("nonsense")))
	add(l.one, "empty-second-block", ec.Cert+"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", ec.PKCS8)
	add(l.one, "base64-of-pem", base64Of(ec.Cert), base64Of(ec.PKCS8))
	add(l.one, "not-pem", "bar", "foo")
	add(l.one, "only-cert", ec.Cert, "")
	add(l.one, "only-key", "", ec.PKCS8)
	add(l.one, "both-empty", "", "")
	add(l.one, "space-key", ec.Cert, " ")

	status := func(members string) string { return `{@K,"status":{` + members + `}}` }
	good := `"clientCertificateData":` + quote(ec.Cert) + `,"clientKeyData":` + quote(ec.PKCS8)
	l.both("cert-and-token", status(`"token":"tok",`+good))
	l.one("cert-and-token-expiry", status(`"token":"tok","expirationTimestamp":"2030-01-02T03:04:05Z",`+good))
	l.one("cert-expiry-past", status(`"expirationTimestamp":"2001-01-02T03:04:05Z",`+good))
	l.one("cert-bad-token-good", status(`"token":"tok","clientCertificateData":"bar","clientKeyData":"foo"`))
	l.one("cert-mismatch-token-good", status(`"token":"tok","clientCertificateData":`+quote(ec.Cert)+`,"clientKeyData":`+quote(other.PKCS8)))
	l.one("cert-only-token-good", status(`"token":"tok","clientCertificateData":`+quote(ec.Cert)))
	l.one("cert-key-only-token-good", status(`"token":"tok","clientKeyData":`+quote(ec.PKCS8)))
	l.one("cert-key-null", status(`"clientCertificateData":`+quote(ec.Cert)+`,"clientKeyData":null`))
	l.one("cert-duplicate-status-merge", `{@K,"status":{"clientCertificateData":`+quote(ec.Cert)+`},"status":{"clientKeyData":`+quote(ec.PKCS8)+`}}`)
	l.one("cert-yaml-block", "@Ystatus:\n  clientCertificateData: |\n"+indent(4, ec.Cert)+"  clientKeyData: |\n"+indent(4, ec.PKCS8))
	l.one("cert-yaml-folded", "@Ystatus:\n  clientCertificateData: >\n"+indent(4, ec.Cert)+"  clientKeyData: |\n"+indent(4, ec.PKCS8))
	l.one("cert-yaml-quoted", "@Ystatus:\n  clientCertificateData: "+quote(ec.Cert)+"\n  clientKeyData: "+quote(ec.PKCS8)+"\n")
	l.one("cert-yaml-duplicate-status", "@Ystatus:\n  clientCertificateData: "+quote(ec.Cert)+"\nstatus:\n  clientKeyData: "+quote(ec.PKCS8)+"\n")
}
