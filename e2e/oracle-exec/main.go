// SPDX-License-Identifier: Apache-2.0

// Command oracle reports what client-go's exec authenticator does with a
// configuration or with the output of a plugin.
// One JSON case per line on stdin, one JSON result per line on stdout, in the
// same order, each flushed at once so that it can be driven interactively.
//
//	oracle exec-info [--fork]   bytes of KUBERNETES_EXEC_INFO for a config
//	oracle decode [--fork]      result of decoding a plugin's stdout
//	oracle version              versions of the reference modules, as JSON
//
// With --fork every case goes through the public surface of the authenticator
// (real.go), which runs this binary as the plugin. Without it the same calls
// are made in this process (fast.go). The two must agree; see run.
//
// Lines end at LF only: strings may contain other line separators. An unknown
// member of a case is an error. Error texts are those of the authenticator,
// without the prefix "getting credentials: " and with the scheme named "S".
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	_ "github.com/credlet/credlet/e2e/oracle-exec/internal/plugin"
)

// infoCase is one case of exec-info.
type infoCase struct {
	Name                    string       `json:"name,omitempty"`
	APIVersion              string       `json:"apiVersion"`
	ProvideClusterInfo      bool         `json:"provideClusterInfo"`
	InteractiveMode         string       `json:"interactiveMode"`
	StdinUnavailable        bool         `json:"stdinUnavailable,omitempty"`
	StdinUnavailableMessage string       `json:"stdinUnavailableMessage,omitempty"`
	TTY                     bool         `json:"tty,omitempty"` // stdin of the client is a terminal
	Cluster                 *infoCluster `json:"cluster,omitempty"`
}

type infoCluster struct {
	Server             string `json:"server"`
	TLSServerName      string `json:"tlsServerName,omitempty"`
	Insecure           bool   `json:"insecure,omitempty"`
	CAData             []byte `json:"caData,omitempty"` // base64
	ProxyURL           string `json:"proxyURL,omitempty"`
	DisableCompression bool   `json:"disableCompression,omitempty"`
	// Config is the raw JSON text of the cluster extension; absent = no extension.
	Config *string `json:"config,omitempty"`
}

type infoResult struct {
	Name  string  `json:"name,omitempty"`
	Info  *string `json:"info,omitempty"`
	Error string  `json:"error,omitempty"`
}

// decodeCase is one case of decode.
type decodeCase struct {
	Name         string  `json:"name,omitempty"`
	APIVersion   string  `json:"apiVersion"` // the configured one
	Stdout       *string `json:"stdout,omitempty"`
	StdoutBase64 []byte  `json:"stdoutBase64,omitempty"`
}

func (c *decodeCase) stdout() []byte {
	if c.Stdout != nil {
		return []byte(*c.Stdout)
	}
	return c.StdoutBase64
}

type decodeResult struct {
	Name        string `json:"name,omitempty"`
	Accepted    bool   `json:"accepted"`
	Token       string `json:"token"`
	TokenBase64 string `json:"tokenBase64,omitempty"` // only if the token is not UTF-8
	Cert        bool   `json:"cert"`
	Expiry      string `json:"expiry"` // RFC 3339 with nanoseconds, in UTC; empty = none
	Error       string `json:"error,omitempty"`
}

// credential is the result of the authenticator.
type credential struct {
	token  string
	cert   bool
	expiry time.Time
}

type oracle interface {
	execInfo(c *infoCase) ([]byte, error)
	decode(c *decodeCase) (*credential, error)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "--fork" {
		return fmt.Errorf("usage: oracle exec-info|decode [--fork] | oracle version")
	}
	if args[0] == "version" {
		return versions(os.Stdout)
	}

	input := os.Stdin
	var o oracle = fast{}
	if len(args) == 2 {
		r, err := newReal()
		if err != nil {
			return err
		}
		defer r.close()
		o = r
	}

	switch args[0] {
	case "exec-info":
		return each(input, os.Stdout, func(c *infoCase) any {
			data, err := o.execInfo(c)
			if err != nil {
				return infoResult{Name: c.Name, Error: plain(err)}
			}
			if !utf8.Valid(data) {
				return infoResult{Name: c.Name, Error: "ORACLE: not UTF-8"}
			}
			text := string(data)
			return infoResult{Name: c.Name, Info: &text}
		})
	case "decode":
		return each(input, os.Stdout, func(c *decodeCase) any {
			got, err := o.decode(c)
			if err != nil {
				return decodeResult{Name: c.Name, Error: plain(err)}
			}
			r := decodeResult{Name: c.Name, Accepted: true, Token: got.token, Cert: got.cert}
			if !utf8.ValidString(got.token) {
				r.TokenBase64 = base64.StdEncoding.EncodeToString([]byte(got.token))
			}
			if !got.expiry.IsZero() {
				r.Expiry = got.expiry.UTC().Format(time.RFC3339Nano)
			}
			return r
		})
	}
	return fmt.Errorf("unknown mode %q", args[0])
}

// each applies f to every line. An invalid line is an error of the caller and
// ends the program.
func each[C any](in io.Reader, out io.Writer, f func(*C) any) error {
	r := bufio.NewReaderSize(in, 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var c C
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&c); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(f(&c)); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			if _, err := out.Write(b.Bytes()); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// The name of a scheme is the source line that created it, which may change.
var schemeName = regexp.MustCompile(`in scheme "[^"]*"`)

// plain returns the error of the authenticator, without the prefix of the round
// tripper.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "getting credentials: ")
	return schemeName.ReplaceAllString(text, `in scheme "S"`)
}

func versions(w io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("no build information")
	}
	out := map[string]string{"go": info.GoVersion}
	for _, m := range info.Deps {
		switch m.Path {
		case "k8s.io/client-go", "k8s.io/apimachinery", "sigs.k8s.io/yaml", "sigs.k8s.io/json", "go.yaml.in/yaml/v2", "go.yaml.in/yaml/v3":
			out[m.Path] = m.Version
		}
	}
	return json.NewEncoder(w).Encode(out)
}
