// SPDX-License-Identifier: Apache-2.0

// Command kubelet runs the kubelet's own code on image names, patterns, credentials, and the configuration files and responses of
// image credential providers. The member "ask" of a case selects the function.
package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"sort"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/credlet/credlet/e2e/cluster/oracle/internal/lines"
)

type query struct {
	Ask string `json:"ask"`
	// Image is a name: as in a pod for "name", normalised for all others.
	Image   string `json:"image"`
	Pattern string `json:"pattern"`
	// Keys are the registries of credentials, in order. The user name of each credential is its index.
	Keys []string `json:"keys"`
	// Path is a CredentialProviderConfig file.
	Path string `json:"path"`
	// Version is the API version of a provider, Answer its output.
	Version     string            `json:"version"`
	Answer      string            `json:"answer"`
	Token       string            `json:"token"`
	Annotations map[string]string `json:"annotations"`
	Namespace   string            `json:"namespace"`
	Account     string            `json:"account"`
	UID         string            `json:"uid"`
	ByToken     bool              `json:"byToken"`
}

// answer has the member "error" or the result.
type answer map[string]any

func main() {
	// Discard the warnings about invalid keys, which would be printed for thousands of cases.
	logging := flag.NewFlagSet("logging", flag.PanicOnError)
	klog.InitFlags(logging)
	_ = logging.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
	klog.SetOutput(io.Discard)
	lines.Answer(ask)
}

func ask(q *query) any {
	a, err := one(q)
	if err != nil {
		return answer{"error": err.Error()}
	}
	return a
}

func one(q *query) (answer, error) {
	switch q.Ask {
	case "name":
		name, tag, digest, err := parsers.ParseImageName(q.Image)
		return answer{"name": name, "tag": tag, "digest": digest}, err
	case "match":
		matched, err := credentialprovider.URLsMatchStr(q.Pattern, q.Image)
		return answer{"matched": matched}, err
	case "keyring":
		return answer{"users": lookUp(q.Keys, q.Image)}, nil
	case "config":
		return readConfig(q.Path)
	case "request":
		text, err := encodeRequest(q)
		return answer{"text": text}, err
	case "response":
		return decodeResponse(q)
	case "key":
		key, err := cacheKey(q)
		return answer{"key": hex.EncodeToString([]byte(key))}, err
	}
	return nil, fmt.Errorf("ORACLE: what is %q", q.Ask)
}

func lookUp(keys []string, image string) []string {
	keyring := &credentialprovider.BasicDockerKeyring{}
	for number, key := range keys {
		entry := credentialprovider.DockerConfigEntry{Username: fmt.Sprint(number)}
		// One at a time, because a map has no order.
		keyring.Add(nil, credentialprovider.DockerConfig{key: entry})
	}
	found, _ := keyring.Lookup(image)
	users := []string{}
	for _, auth := range found {
		users = append(users, auth.Username)
	}
	return users
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
