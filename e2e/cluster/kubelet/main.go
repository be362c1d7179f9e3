// SPDX-License-Identifier: Apache-2.0

// Command minikubelet is a fake node with one pod: it registers both at the API server and serves exec, logs and port-forward with
// the streaming code of the kubelet's container runtimes. There are no containers: commands run as child processes, the log is a
// line in regular intervals, and every port of the pod is the same small web server.
//
// It requires the client certificate of the API server, because its clients can run programs. When the pod is registered it writes
// the file "pod" into the directory of the cluster.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	dir := flag.String("dir", "", "the cluster's directory")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := run(ctx, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "minikubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	listener, err := listen(dir)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newPodServer()}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	if err := register(ctx, dir, listener.Addr().(*net.TCPAddr).Port); err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pod"), nil, 0o600); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

func listen(dir string) (net.Listener, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(text) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	// HTTP/1.1 only, because the streams use its Upgrade mechanism.
	return tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
		NextProtos: []string{"http/1.1"},
	})
}

// register creates the node and the pod and reports both as ready.
func register(ctx context.Context, dir string, port int) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}

	pods := client.CoreV1().Pods("default")
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"app": "pod"}},
		Spec: corev1.PodSpec{
			NodeName: node.Name,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.invalid/none", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: "example.invalid/none", Ready: true, ContainerID: "none://main",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
