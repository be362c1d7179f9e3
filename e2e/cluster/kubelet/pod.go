// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idle     = 10 * time.Minute
	creation = 30 * time.Second
	// logInterval is the time between two lines of the log.
	logInterval = 100 * time.Millisecond
)

// podServer is the part of the kubelet's API to which an API server forwards requests.
type podServer struct{ begun time.Time }

func newPodServer() http.Handler {
	p := &podServer{begun: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", p.exec)
	mux.HandleFunc("/portForward/{namespace}/{pod}", p.portForward)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", p.logs)
	return mux
}

func (p *podServer) exec(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, req, p, req.PathValue("pod"), "", req.PathValue("container"), req.URL.Query()["command"],
		options, idle, creation, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer runs the command as a child process.
func (p *podServer) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	if tty {
		return inTerminal(cmd, in, out, resize)
	}
	if in != nil {
		// Not cmd.Stdin: Wait would wait for the end of the input, which an interactive terminal does not have.
		pipe, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	if out != nil {
		cmd.Stdout = out
	}
	if err != nil {
		cmd.Stderr = err
	}
	return exitCode(cmd.Run())
}

func inTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	// Returns an error when the last process has closed the terminal.
	_, _ = io.Copy(out, terminal)
	return exitCode(cmd.Wait())
}

// exitCode converts the error of a command to the one that the streaming code expects.
func exitCode(err error) error {
	if exit, ok := err.(*exec.ExitError); ok {
		return &utilexec.ExitErrorWrapper{ExitError: exit}
	}
	return err
}

// logs writes a line for every interval since the start of the pod, and continues with ?follow.
func (p *podServer) logs(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	lines := func() int { return int(time.Since(p.begun) / logInterval) }
	next, n := 0, lines()
	if tail, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		next = max(0, n-tail)
	}
	flusher := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/plain")
	for {
		for ; next < n; next++ {
			if _, err := fmt.Fprintf(w, "line %d\n", next); err != nil {
				return
			}
		}
		if query.Get("follow") != "true" {
			return
		}
		_ = flusher.Flush()
		select {
		case <-req.Context().Done():
			return
		case <-time.After(logInterval):
			n = lines()
		}
	}
}

func (p *podServer) portForward(w http.ResponseWriter, req *http.Request) {
	options, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, req, p, req.PathValue("pod"), "", options, idle, creation, portforward.SupportedProtocols)
}

// PortForward connects the stream to the web server, whatever the port is.
func (p *podServer) PortForward(ctx context.Context, name, _ string, port int32, stream io.ReadWriteCloser) error {
	near, far := net.Pipe()
	hello := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "%s of %s, port %d\n", req.URL.Path, name, port)
	})
	server := &http.Server{Handler: hello}
	defer server.Close()
	go func() { _ = server.Serve(&once{conn: far, done: ctx.Done()}) }()
	go func() {
		_, _ = io.Copy(near, stream)
		_ = near.Close()
	}()
	_, err := io.Copy(stream, near)
	return err
}

// once is a listener that accepts one connection.
type once struct {
	conn net.Conn
	done <-chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if conn := o.conn; conn != nil {
		o.conn = nil
		return conn, nil
	}
	<-o.done
	return nil, net.ErrClosed
}

func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }
