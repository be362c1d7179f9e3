// SPDX-License-Identifier: Apache-2.0

// Command gencases writes the decode cases and the info cases into the two
// given files and, if it does not exist, pairs.json into the current directory.
// The key pairs are for tests only; they are stored so that the case files are
// the same in each run.
package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"strings"
	"time"
)

const (
	v1      = "client.authentication.k8s.io/v1"
	v1beta1 = "client.authentication.k8s.io/v1beta1"
)

// pair is a certificate with its key in all supported encodings.
type pair struct {
	Cert  string `json:"cert"`
	PKCS8 string `json:"pkcs8"`
	Own   string `json:"own,omitempty"` // SEC 1 or PKCS #1
}

type pairs struct {
	EC      pair `json:"ec"`
	Other   pair `json:"other"` // EC as well
	P384    pair `json:"p384"`
	RSA     pair `json:"rsa"`
	Ed25519 pair `json:"ed25519"`
}

type decodeCase struct {
	Name         string  `json:"name"`
	APIVersion   string  `json:"apiVersion"`
	Stdout       *string `json:"stdout,omitempty"`
	StdoutBase64 []byte  `json:"stdoutBase64,omitempty"`
}

type infoCase struct {
	Name                    string   `json:"name"`
	APIVersion              string   `json:"apiVersion"`
	ProvideClusterInfo      bool     `json:"provideClusterInfo"`
	InteractiveMode         string   `json:"interactiveMode"`
	StdinUnavailable        bool     `json:"stdinUnavailable,omitempty"`
	StdinUnavailableMessage string   `json:"stdinUnavailableMessage,omitempty"`
	TTY                     bool     `json:"tty,omitempty"`
	Cluster                 *cluster `json:"cluster,omitempty"`
}

type cluster struct {
	Server             string  `json:"server"`
	TLSServerName      string  `json:"tlsServerName,omitempty"`
	Insecure           bool    `json:"insecure,omitempty"`
	CAData             []byte  `json:"caData,omitempty"`
	ProxyURL           string  `json:"proxyURL,omitempty"`
	DisableCompression bool    `json:"disableCompression,omitempty"`
	Config             *string `json:"config,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gencases:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return errors.New("usage: gencases DECODE-CASES INFO-CASES")
	}
	p, err := loadPairs("pairs.json")
	if err != nil {
		return err
	}
	if err := writeLines(os.Args[1], decodeCases(p)); err != nil {
		return err
	}
	return writeLines(os.Args[2], infoCases())
}

func writeLines[C any](name string, cases []C) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, c := range cases {
		if err := e.Encode(c); err != nil {
			return err
		}
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

func loadPairs(name string) (*pairs, error) {
	data, err := os.ReadFile(name)
	if err == nil {
		p := &pairs{}
		return p, json.Unmarshal(data, p)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p, err := makePairs()
	if err != nil {
		return nil, err
	}
	data, err = json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(name, append(data, '\n'), 0o644)
}

func makePairs() (*pairs, error) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, err
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	p := &pairs{}
	for _, x := range []struct {
		out *pair
		cn  string
		key crypto.Signer
	}{{&p.EC, "ec", ec}, {&p.Other, "other", other}, {&p.P384, "p384", p384}, {&p.RSA, "rsa", rsaKey}, {&p.Ed25519, "ed25519", edKey}} {
		if err := x.out.fill("credlet oracle "+x.cn, x.key); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pair) fill(cn string, key crypto.Signer) error {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: cn},
		// Expired, because the dates are not checked.
		NotBefore:   time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:    time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return err
	}
	p.Cert = block("CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return err
	}
	p.PKCS8 = block("PRIVATE KEY", der)
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if der, err = x509.MarshalECPrivateKey(k); err != nil {
			return err
		}
		p.Own = block("EC PRIVATE KEY", der)
	case *rsa.PrivateKey:
		p.Own = block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k))
	}
	return nil
}

func block(typ string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}))
}

// quote returns s as JSON text.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func indent(n int, s string) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+pad) + "\n"
}

func text(s string) *string { return &s }

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
