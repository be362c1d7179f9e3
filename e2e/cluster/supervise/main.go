// SPDX-License-Identifier: Apache-2.0

// Command supervise runs a cluster on 127.0.0.1: etcd, kube-apiserver and minikubelet, on free ports, in a directory of its own. With
// a command it runs the command while the cluster is up and exits with its exit code; without one it waits for a signal.
// On exit it stops every process that it started and removes the directory, unless CREDLET_E2E_KEEP is set.
//
//	supervise -bin DIR [-dir DIR] [-kubelet=false] [COMMAND…]
//	supervise -sign -dir DIR -user NAME [-groups A,B] [-life 1h]
//
// The file apiserver.flags in the directory may contain further flags of kube-apiserver, one per line.
// The environment of the command has CLUSTER (the directory), CLUSTER_BIN, KUBECONFIG (the administrator's) and kubectl in its PATH.
// The second form prints a client certificate and its key for NAME as {"clientCertificateData","clientKeyData"}.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// limit is the maximum time for the start of the cluster on a busy machine; on an idle one it takes a few seconds.
const limit = 90 * time.Second

func main() {
	bin := flag.String("bin", "", "directory of kube-apiserver, kubectl and minikubelet")
	dir := flag.String("dir", "", "directory of the cluster (default: a new one)")
	kubelet := flag.Bool("kubelet", true, "run a node as well")
	signing := flag.Bool("sign", false, "sign a client certificate instead")
	user := flag.String("user", "", "with -sign: user name")
	groups := flag.String("groups", "", "with -sign: groups, comma-separated")
	life := flag.Duration("life", time.Hour, "with -sign: lifetime")
	flag.Parse()

	code, err := 1, error(nil)
	if *signing {
		code, err = 0, sign(*dir, *user, *groups, *life)
	} else {
		code, err = run(*bin, *dir, *kubelet, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func sign(dir, user, groups string, life time.Duration) error {
	ca, err := loadAuthority(dir)
	if err != nil {
		return err
	}
	pair, err := ca.client(user, strings.FieldsFunc(groups, func(r rune) bool { return r == ',' }), life)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{
		"clientCertificateData": string(pair.cert), "clientKeyData": string(pair.key),
	})
}

func run(bin, dir string, kubelet bool, command []string) (int, error) {
	// Pdeathsig of a child refers to the thread that started it.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)

	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "credlet-cluster-"); err != nil {
			return 1, err
		}
	}
	if os.Getenv("CREDLET_E2E_KEEP") == "" {
		defer os.RemoveAll(dir)
	} else {
		defer fmt.Fprintln(os.Stderr, "kept:", dir)
	}
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 1, err
	}

	c := &cluster{bin: bin, dir: dir, ended: make(chan string, 8)}
	defer c.stop()
	begun := time.Now()
	if err := c.start(kubelet, signals); err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "cluster: %s is up at %s after %.1f s\n", c.version, c.server, time.Since(begun).Seconds())
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		return 1, err
	}
	return c.beside(command, signals)
}

// beside runs the command until it exits, a process of the cluster exits, or a signal arrives.
func (c *cluster) beside(command []string, signals <-chan os.Signal) (int, error) {
	done := make(chan error, 1)
	var child *exec.Cmd
	if len(command) > 0 {
		child = exec.Command(command[0], command[1:]...)
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		child.Env = append(os.Environ(),
			"CLUSTER="+c.dir,
			"CLUSTER_BIN="+c.bin,
			"KUBECONFIG="+filepath.Join(c.dir, "admin.kubeconfig"),
			// No settings of the user of this machine.
			"HOME="+c.dir,
			"PATH="+c.bin+":"+os.Getenv("PATH"))
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		if err := child.Start(); err != nil {
			return 1, err
		}
		go func() { done <- child.Wait() }()
	}

	select {
	case err := <-done:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return max(exit.ExitCode(), 1), nil
		}
		return 0, err
	case name := <-c.ended:
		return 1, fmt.Errorf("%s exited: %s", name, c.tail(name))
	case s := <-signals:
		if child != nil {
			_ = child.Process.Signal(syscall.SIGTERM)
			<-done
			return 1, fmt.Errorf("terminated by signal: %s", s)
		}
		return 0, nil
	}
}
