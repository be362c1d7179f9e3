// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// cluster is a running cluster: its processes and addresses.
type cluster struct {
	bin, dir        string
	server, version string
	ca              *authority
	children        []*child
	ended           chan string
}

type child struct {
	name string
	cmd  *exec.Cmd
	gone chan struct{}
}

func (c *cluster) start(kubelet bool, signals <-chan os.Signal) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c.server = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if err := c.writeFiles(); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := c.spawn("etcd", "etcd",
		"--name=one", "--data-dir="+c.file("etcd.data"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=one="+peer,
	); err != nil {
		return err
	}
	further, err := os.ReadFile(c.file("apiserver.flags"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := c.spawn("kube-apiserver", filepath.Join(c.bin, "kube-apiserver"), append(strings.Fields(string(further)),
		"--etcd-servers="+etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file="+c.file("server.crt"), "--tls-private-key-file="+c.file("server.key"),
		"--client-ca-file="+c.file("ca.crt"), "--token-auth-file="+c.file("tokens.csv"),
		"--service-account-issuer=https://cluster.invalid",
		"--service-account-signing-key-file="+c.file("sa.key"), "--service-account-key-file="+c.file("sa.pub"),
		"--authorization-mode=RBAC",
		// There is no controller that creates service accounts for pods.
		"--disable-admission-plugins=ServiceAccount",
		"--kubelet-client-certificate="+c.file("apiserver-kubelet.crt"), "--kubelet-client-key="+c.file("apiserver-kubelet.key"),
		"--kubelet-certificate-authority="+c.file("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
	)...); err != nil {
		return err
	}
	if err := c.wait(ctx, signals, "kube-apiserver", c.ready); err != nil {
		return err
	}
	if !kubelet {
		return nil
	}
	if err := c.spawn("kubelet", filepath.Join(c.bin, "minikubelet"), "-dir", c.dir); err != nil {
		return err
	}
	return c.wait(ctx, signals, "kubelet", func(context.Context) bool {
		_, err := os.Stat(c.file("pod"))
		return err == nil
	})
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

// spawn starts a child process; its output is written to a file of its name.
func (c *cluster) spawn(name, path string, args ...string) error {
	log, err := os.Create(c.file(name + ".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, c.dir
	// Its own process group, so that Ctrl-C at the terminal reaches only this process, which stops the children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	ch := &child{name: name, cmd: cmd, gone: make(chan struct{})}
	c.children = append(c.children, ch)
	fmt.Fprintf(os.Stderr, "cluster: started %s, process %d\n", name, cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()
		close(ch.gone)
		c.ended <- name
	}()
	return nil
}

func (c *cluster) wait(ctx context.Context, signals <-chan os.Signal, name string, ready func(context.Context) bool) error {
	for !ready(ctx) {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %s", name, limit, c.tail(name))
		case name := <-c.ended:
			return fmt.Errorf("%s did not start: %s", name, c.tail(name))
		case s := <-signals:
			return fmt.Errorf("terminated by signal: %s", s)
		}
	}
	return nil
}

// ready reports whether the API server responds and has created its default objects.
func (c *cluster) ready(ctx context.Context) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca.pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	get := func(path string, into any) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+adminToken)
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK && (into == nil || json.NewDecoder(resp.Body).Decode(into) == nil)
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if !get("/readyz", nil) || !get("/api/v1/namespaces/default", nil) || !get("/version", &version) {
		return false
	}
	c.version = version.GitVersion
	return true
}

// stop stops the processes in reverse order of their start.
func (c *cluster) stop() {
	for i := len(c.children) - 1; i >= 0; i-- {
		ch := c.children[i]
		grace := 3 * time.Second
		if ch.name == "kube-apiserver" {
			// The API server would wait a minute for its watches to close.
			grace = 0
		}
		_ = ch.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ch.gone:
		case <-time.After(grace):
			_ = ch.cmd.Process.Kill()
			<-ch.gone
		}
	}
}

// tail returns the end of the output of a child process.
func (c *cluster) tail(name string) string {
	text, _ := os.ReadFile(c.file(name + ".log"))
	return string(text[max(0, len(text)-1500):])
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// All listeners stay open until the last port is chosen, so that the ports differ.
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
