// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/pkg/apis/clientauthentication"
	"k8s.io/client-go/pkg/apis/clientauthentication/install"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientauthenticationv1beta1 "k8s.io/client-go/pkg/apis/clientauthentication/v1beta1"
	"k8s.io/client-go/tools/clientcmd/api"
)

// fast makes, in this process, the calls which the authenticator of the pinned
// client-go makes around the plugin run (refreshCredsLocked and isInteractive in
// plugin/pkg/client/auth/exec/exec.go, read at v0.37.2): the same codec of the
// same scheme for both directions, then the checks on the decoded status in the
// same order. Only those checks are reimplemented here; all parsing is done by
// client-go. Compare with that function on an upgrade of client-go; the run
// script compares the results with the real authenticator for every case.
type fast struct{}

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)

	groupVersions = map[string]schema.GroupVersion{
		clientauthenticationv1.SchemeGroupVersion.String():      clientauthenticationv1.SchemeGroupVersion,
		clientauthenticationv1beta1.SchemeGroupVersion.String(): clientauthenticationv1beta1.SchemeGroupVersion,
	}
)

func init() { install.Install(scheme) }

func groupVersion(text string) (schema.GroupVersion, error) {
	gv, ok := groupVersions[text]
	if !ok {
		return gv, fmt.Errorf("exec plugin: invalid apiVersion %q", text)
	}
	return gv, nil
}

// cluster returns client-go's cluster value of a case.
func (c *infoCase) cluster() *clientauthentication.Cluster {
	if c.Cluster == nil {
		return nil
	}
	out := &clientauthentication.Cluster{
		Server:                   c.Cluster.Server,
		TLSServerName:            c.Cluster.TLSServerName,
		InsecureSkipTLSVerify:    c.Cluster.Insecure,
		CertificateAuthorityData: c.Cluster.CAData,
		ProxyURL:                 c.Cluster.ProxyURL,
		DisableCompression:       c.Cluster.DisableCompression,
	}
	if c.Cluster.Config != nil {
		// The form of the extension after loading a kubeconfig.
		out.Config = &runtime.Unknown{Raw: []byte(*c.Cluster.Config), ContentType: runtime.ContentTypeJSON}
	}
	return out
}

func (c *infoCase) interactive() (bool, error) {
	switch api.ExecInteractiveMode(c.InteractiveMode) {
	case api.NeverExecInteractiveMode:
		return false, nil
	case api.IfAvailableExecInteractiveMode:
		return c.TTY && !c.StdinUnavailable, nil
	case api.AlwaysExecInteractiveMode:
		switch {
		case !c.TTY:
			return false, errors.New("standard input is not a terminal")
		case c.StdinUnavailable && c.StdinUnavailableMessage != "":
			return false, errors.New("standard input is unavailable: " + c.StdinUnavailableMessage)
		case c.StdinUnavailable:
			return false, errors.New("standard input is unavailable")
		}
		return true, nil
	}
	return false, fmt.Errorf("unknown interactiveMode: %q", c.InteractiveMode)
}

func (fast) execInfo(c *infoCase) ([]byte, error) {
	gv, err := groupVersion(c.APIVersion)
	if err != nil {
		return nil, err
	}
	interactive, err := c.interactive()
	if err != nil {
		return nil, fmt.Errorf("exec plugin cannot support interactive mode: %w", err)
	}
	cred := &clientauthentication.ExecCredential{}
	cred.Spec.Interactive = interactive
	if c.ProvideClusterInfo {
		cred.Spec.Cluster = c.cluster()
	}
	data, err := runtime.Encode(codecs.LegacyCodec(gv), cred)
	if err != nil {
		return nil, fmt.Errorf("encode ExecCredentials: %w", err)
	}
	return data, nil
}

func (fast) decode(c *decodeCase) (*credential, error) {
	gv, err := groupVersion(c.APIVersion)
	if err != nil {
		return nil, err
	}
	cred := &clientauthentication.ExecCredential{}
	_, gvk, err := codecs.UniversalDecoder(gv).Decode(c.stdout(), nil, cred)
	if err != nil {
		return nil, fmt.Errorf("decoding stdout: %w", err)
	}
	if got := gvk.GroupVersion(); got != gv {
		return nil, fmt.Errorf("exec plugin is configured to use API version %s, plugin returned version %s", gv, got)
	}

	st := cred.Status
	if st == nil {
		return nil, errors.New("exec plugin didn't return a status field")
	}
	hasCert, hasKey := st.ClientCertificateData != "", st.ClientKeyData != ""
	if st.Token == "" && !hasCert && !hasKey {
		return nil, errors.New("exec plugin didn't return a token or cert/key pair")
	}
	if hasCert != hasKey {
		return nil, errors.New("exec plugin returned only certificate or key, not both")
	}
	out := &credential{token: st.Token, cert: hasCert}
	if st.ExpirationTimestamp != nil {
		out.expiry = st.ExpirationTimestamp.Time
	}
	if hasCert {
		// This parses the leaf too, so the authenticator's own parse after it cannot fail.
		if _, err := tls.X509KeyPair([]byte(st.ClientCertificateData), []byte(st.ClientKeyData)); err != nil {
			return nil, fmt.Errorf("failed parsing client key/certificate: %w", err)
		}
	}
	return out, nil
}
