// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/plugin/pkg/client/auth/exec"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/credlet/credlet/e2e/oracle-exec/internal/plugin"
)

// real uses the authenticator itself, which runs this binary as its plugin.
type real struct {
	self     string
	dir      string
	null     *os.File
	ptm, pts *os.File // opened at first use
	runs     int
}

func newReal() (*real, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oracle-exec-")
	if err != nil {
		return nil, err
	}
	return &real{self: self, dir: dir, null: null}, nil
}

func (r *real) close() { os.RemoveAll(r.dir) }

// terminal opens a pseudo-terminal and returns its slave side.
func (r *real) terminal() (*os.File, error) {
	if r.pts != nil {
		return r.pts, nil
	}
	ptm, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(int(ptm.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlocking the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(int(ptm.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("number of the terminal: %w", err)
	}
	pts, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	r.ptm, r.pts = ptm, pts
	return pts, nil
}

// request builds an authenticator, sends one request through its round tripper
// and returns the token of that request and whether there is a certificate.
func (r *real) request(conf *api.ExecConfig, cluster *clientauthentication.Cluster, stdin *os.File) (*credential, error) {
	// Authenticators are cached per process and configuration; the plugin
	// ignores this argument.
	r.runs++
	conf.Args = append(conf.Args, strconv.Itoa(r.runs))
	conf.Command = r.self

	// The authenticator reads the variable when it is created and when it runs.
	old := os.Stdin
	os.Stdin = stdin
	defer func() { os.Stdin = old }()

	a, err := exec.GetAuthenticator(conf, cluster)
	if err != nil {
		return nil, err
	}
	tc := &transport.Config{}
	if err := a.UpdateTransportConfig(tc); err != nil {
		return nil, err
	}
	var header []string
	rt := tc.WrapTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
		header = req.Header.Values("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	}))
	req, err := http.NewRequest(http.MethodGet, "https://cluster.invalid/", nil)
	if err != nil {
		return nil, err
	}
	if _, err := rt.RoundTrip(req); err != nil {
		return nil, err
	}

	out := &credential{}
	switch {
	case len(header) > 1:
		return nil, errors.New("ORACLE: several Authorization headers")
	case len(header) == 1:
		token, ok := strings.CutPrefix(header[0], "Bearer ")
		if !ok {
			return nil, errors.New("ORACLE: not a bearer token")
		}
		out.token = token
	}

	// The expiry has no public accessor, and GetCert would run the plugin again
	// if the certificate has expired. So both are read with reflection.
	v := reflect.ValueOf(a).Elem()
	exp := v.FieldByName("exp")
	out.expiry = *(*time.Time)(unsafe.Pointer(exp.UnsafeAddr()))
	out.cert = !v.FieldByName("cachedCreds").Elem().FieldByName("cert").IsNil()
	return out, nil
}

func (r *real) execInfo(c *infoCase) ([]byte, error) {
	stdin := r.null
	if c.TTY {
		var err error
		if stdin, err = r.terminal(); err != nil {
			return nil, fmt.Errorf("ORACLE: %w", err)
		}
	}
	info, answer := filepath.Join(r.dir, "info"), filepath.Join(r.dir, "answer")
	if err := os.RemoveAll(info); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`{"kind":"ExecCredential","apiVersion":%q,"status":{"token":"t"}}`, c.APIVersion)
	if err := os.WriteFile(answer, []byte(text), 0o600); err != nil {
		return nil, err
	}
	_, err := r.request(&api.ExecConfig{
		Args:                    []string{plugin.Dump, info, answer},
		APIVersion:              c.APIVersion,
		ProvideClusterInfo:      c.ProvideClusterInfo,
		InteractiveMode:         api.ExecInteractiveMode(c.InteractiveMode),
		StdinUnavailable:        c.StdinUnavailable,
		StdinUnavailableMessage: c.StdinUnavailableMessage,
	}, c.cluster(), stdin)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(info)
}

func (r *real) decode(c *decodeCase) (*credential, error) {
	answer := filepath.Join(r.dir, "answer")
	if err := os.WriteFile(answer, c.stdout(), 0o600); err != nil {
		return nil, err
	}
	return r.request(&api.ExecConfig{
		Args:            []string{plugin.Print, answer},
		APIVersion:      c.APIVersion,
		InteractiveMode: api.NeverExecInteractiveMode,
	}, nil, r.null)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
