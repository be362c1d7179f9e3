// SPDX-License-Identifier: Apache-2.0

// Command clientcmd reports how kubectl interprets kubeconfig files: whether they load, and the server and credentials that it would
// use. It makes the same calls as kubectl up to the connection, except for kubectl's fallback http://localhost:8080.
package main

import (
	"encoding/json"
	"net/http"

	"k8s.io/client-go/pkg/apis/clientauthentication"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/credlet/credlet/e2e/cluster/oracle/internal/lines"
)

type query struct {
	// Files are in order of precedence; Explicit is the value of --kubeconfig.
	Files     []string  `json:"files"`
	Explicit  string    `json:"explicit"`
	Overrides overrides `json:"overrides"`
}

// overrides are flags of kubectl.
type overrides struct {
	Context, Cluster, User, Namespace   string
	Server, TLSServerName, CA, ProxyURL string
	Insecure, DisableCompression        bool
	Token, Username, Password           string
	Certificate, Key                    string
	As, AsUID                           string
	AsGroups                            []string
}

type answer struct {
	// Outcome is "ok", or the step that failed: "load" or "use".
	Outcome string    `json:"outcome"`
	Error   string    `json:"error,omitempty"`
	Config  *resolved `json:"config,omitempty"`
}

type resolved struct {
	Context            string              `json:"context"`
	Server             string              `json:"server"`
	Namespace          string              `json:"namespace"`
	TLSServerName      string              `json:"tlsServerName"`
	Insecure           bool                `json:"insecure"`
	CA                 string              `json:"ca"`
	Certificate        string              `json:"certificate"`
	Key                string              `json:"key"`
	Token              string              `json:"token"`
	TokenFile          string              `json:"tokenFile"`
	Username           string              `json:"username"`
	Password           string              `json:"password"`
	Proxy              string              `json:"proxy"`
	DisableCompression bool                `json:"disableCompression"`
	As                 string              `json:"as"`
	AsUID              string              `json:"asUID"`
	AsGroups           []string            `json:"asGroups"`
	AsExtra            map[string][]string `json:"asExtra"`
	Exec               *execConfig         `json:"exec"`
	AuthProvider       *authProvider       `json:"authProvider"`
}

type execConfig struct {
	Command            string      `json:"command"`
	Args               []string    `json:"args"`
	Env                [][2]string `json:"env"`
	APIVersion         string      `json:"apiVersion"`
	InstallHint        string      `json:"installHint"`
	ProvideClusterInfo bool        `json:"provideClusterInfo"`
	InteractiveMode    string      `json:"interactiveMode"`
	// Extension is the JSON text that a plugin would get.
	Extension string `json:"extension"`
}

type authProvider struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
}

func main() { lines.Answer(ask) }

func ask(q *query) any {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: q.Explicit, Precedence: q.Files}
	loaded, err := rules.Load()
	if err != nil {
		return answer{Outcome: "load", Error: err.Error()}
	}
	o := &q.Overrides
	given := &clientcmd.ConfigOverrides{
		CurrentContext: o.Context,
		Context:        api.Context{Cluster: o.Cluster, AuthInfo: o.User, Namespace: o.Namespace},
		ClusterInfo: api.Cluster{
			Server: o.Server, TLSServerName: o.TLSServerName, CertificateAuthority: o.CA, ProxyURL: o.ProxyURL,
			InsecureSkipTLSVerify: o.Insecure, DisableCompression: o.DisableCompression,
		},
		AuthInfo: api.AuthInfo{
			Token: o.Token, Username: o.Username, Password: o.Password,
			ClientCertificate: o.Certificate, ClientKey: o.Key,
			Impersonate: o.As, ImpersonateUID: o.AsUID, ImpersonateGroups: o.AsGroups,
		},
	}
	kube := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, given)
	config, err := kube.ClientConfig()
	if err != nil {
		return answer{Outcome: "use", Error: err.Error()}
	}
	namespace, _, err := kube.Namespace()
	if err != nil {
		return answer{Outcome: "use", Error: err.Error()}
	}
	r, err := describe(config)
	if err != nil {
		return answer{Outcome: "use", Error: err.Error()}
	}
	r.Namespace, r.Context = namespace, loaded.CurrentContext
	if o.Context != "" {
		r.Context = o.Context
	}
	return answer{Outcome: "ok", Config: r}
}

// describe continues up to the creation of the transport, because some errors are found only there.
func describe(config *rest.Config) (*resolved, error) {
	if _, _, err := rest.DefaultServerUrlFor(config); err != nil {
		return nil, err
	}
	// The content of the files is needed, not their names.
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return nil, err
	}
	tc, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	if _, err := transport.HTTPWrappersForConfig(tc, http.DefaultTransport); err != nil {
		return nil, err
	}
	if _, err := transport.TLSConfigFor(tc); err != nil {
		return nil, err
	}

	r := &resolved{
		Server: config.Host, TLSServerName: config.ServerName, Insecure: config.Insecure,
		CA: string(loaded.CAData), Certificate: string(loaded.CertData), Key: string(loaded.KeyData),
		Token: config.BearerToken, TokenFile: config.BearerTokenFile,
		Username: config.Username, Password: config.Password,
		DisableCompression: config.DisableCompression,
		As:                 config.Impersonate.UserName, AsUID: config.Impersonate.UID,
		AsGroups: config.Impersonate.Groups, AsExtra: config.Impersonate.Extra,
	}
	if config.Proxy != nil {
		proxy, err := config.Proxy(&http.Request{})
		if err != nil {
			return nil, err
		}
		r.Proxy = proxy.String()
	}
	if e := config.ExecProvider; e != nil {
		x := &execConfig{
			Command: e.Command, Args: e.Args, APIVersion: e.APIVersion, InstallHint: e.InstallHint,
			ProvideClusterInfo: e.ProvideClusterInfo, InteractiveMode: string(e.InteractiveMode),
		}
		for _, v := range e.Env {
			x.Env = append(x.Env, [2]string{v.Name, v.Value})
		}
		cluster, err := rest.ConfigToExecCluster(config)
		if err != nil {
			return nil, err
		}
		x.Extension = extension(cluster)
		r.Exec = x
	}
	if p := config.AuthProvider; p != nil {
		r.AuthProvider = &authProvider{Name: p.Name, Config: p.Config}
	}
	return r, nil
}

func extension(cluster *clientauthentication.Cluster) string {
	if cluster.Config == nil {
		return ""
	}
	text, err := json.Marshal(cluster.Config)
	if err != nil {
		return "ORACLE: " + err.Error()
	}
	return string(text)
}
