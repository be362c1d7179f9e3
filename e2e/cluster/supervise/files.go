// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Fixed tokens: only this machine can reach the cluster, and it exists for minutes.
const adminToken = "admin-token"

const tokens = adminToken + `,admin,1,"system:masters"
ada-token,ada,2,"engineers"
ada-token-2,ada,2,"engineers"
bob-token,bob,3,"engineers"
`

// authority is the CA of the server and the client certificates.
type authority struct {
	pem  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

type pair struct{ cert, key []byte }

// writeFiles creates all keys, certificates and kubeconfigs.
func (c *cluster) writeFiles() error {
	ca, key, err := newAuthority()
	if err != nil {
		return err
	}
	c.ca = ca
	server, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, 24*time.Hour)
	if err != nil {
		return err
	}
	kubelet, err := ca.client("apiserver-kubelet", []string{"system:masters"}, 24*time.Hour)
	if err != nil {
		return err
	}
	accounts, err := newKey()
	if err != nil {
		return err
	}
	accountsKey, err := parseKey(accounts)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accountsKey.Public())
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": ca.pem, "ca.key": key,
		"server.crt": server.cert, "server.key": server.key,
		"apiserver-kubelet.crt": kubelet.cert, "apiserver-kubelet.key": kubelet.key,
		"sa.key": accounts, "sa.pub": block("PUBLIC KEY", public),
		"tokens.csv":       []byte(tokens),
		"admin.kubeconfig": c.kubeconfig(adminToken),
		"server":           []byte(c.server),
	}
	for name, data := range files {
		if err := os.WriteFile(c.file(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) kubeconfig(token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: admin}}]
clusters: [{name: cluster, cluster: {server: %s, certificate-authority-data: %s}}]
users: [{name: admin, user: {token: %s}}]
`, c.server, base64.StdEncoding.EncodeToString(c.ca.pem), token)
}

func newAuthority() (*authority, []byte, error) {
	text, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{pem: block("CERTIFICATE", der), cert: cert, key: key}, text, err
}

func loadAuthority(dir string) (*authority, error) {
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	secret, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, errors.New("ca.crt contains no certificate")
	}
	cert, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(secret)
	return &authority{pem: text, cert: cert, key: key}, err
}

func (a *authority) client(user string, groups []string, life time.Duration) (*pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, life)
}

func (a *authority) issue(template *x509.Certificate, life time.Duration) (*pair, error) {
	text, err := newKey()
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(life)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return &pair{cert: block("CERTIFICATE", der), key: text}, err
}

func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return block("PRIVATE KEY", der), err
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, errors.New("no key")
	}
	key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("unexpected key type %T", key)
	}
	return ec, nil
}

func block(label string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})
}
