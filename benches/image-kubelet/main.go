// SPDX-License-Identifier: Apache-2.0

// Command image-kubelet runs operations of the kubelet's own code. It reads one command per line from stdin and writes one line of
// output for each. The caller measures the time, and requests so many operations at once that the pipe costs nothing.
//
//	image-kubelet CONFIG BIN-DIR
//
//	pull N IMAGE         looks up the credentials of an image N times, by the name in a pod
//	keyring N IMAGE      the same, by the normalised name
//	herd IMAGE…          looks up the credentials of all images at the same time
//	keys KEYS IMAGES     creates a keyring from a file of keys and stores a file of images, one per line
//	match                looks up the credentials of all these images in that keyring
//	pairs                compares each of these images with each of these keys
//	show IMAGE           prints the credentials of an image as JSON
//
// All but "show" print the number of credentials or matches.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
	"k8s.io/kubernetes/pkg/util/parsers"
)

func main() {
	if len(os.Args) != 3 {
		fail("usage: image-kubelet CONFIG BIN-DIR")
	}
	if err := plugin.RegisterCredentialProviderPlugins(os.Args[1], os.Args[2], nil, nil); err != nil {
		fail(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := obey(strings.Fields(lines.Text()))
		if err != nil {
			fail(err)
		}
		fmt.Println(answer)
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, "image-kubelet:", why)
	os.Exit(1)
}

// The files that "keys" has read.
var (
	keyring      credentialprovider.BasicDockerKeyring
	keys, images []string
)

func obey(words []string) (any, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("empty line")
	}
	switch command, words := words[0], words[1:]; {
	case command == "pull" && len(words) == 2:
		return repeat(words[0], func() (int, error) { return pull(words[1]) })
	case command == "keyring" && len(words) == 2:
		return repeat(words[0], func() (int, error) { return len(lookUp(words[1])), nil })
	case command == "herd":
		return herd(words), nil
	case command == "keys" && len(words) == 2:
		return read(words[0], words[1])
	case command == "match":
		return match(), nil
	case command == "pairs":
		return pairs()
	case command == "show" && len(words) == 1:
		return show(words[0])
	}
	return nil, fmt.Errorf("unknown command %q", words)
}

// lookUp does what the kubelet does: it creates a keyring for each pod and uses it once.
func lookUp(name string) []credentialprovider.TrackedAuthConfig {
	found, _ := plugin.NewExternalCredentialProviderDockerKeyring("default", "pod", "uid", "").Lookup(name)
	return found
}

func pull(image string) (int, error) {
	name, _, _, err := parsers.ParseImageName(image)
	return len(lookUp(name)), err
}

func repeat(times string, f func() (int, error)) (int, error) {
	n, err := strconv.Atoi(times)
	sum := 0
	for ; err == nil && n > 0; n-- {
		var found int
		found, err = f()
		sum += found
	}
	return sum, err
}

func herd(images []string) int64 {
	var all sync.WaitGroup
	var sum atomic.Int64
	for _, image := range images {
		all.Go(func() { sum.Add(int64(len(lookUp(image)))) })
	}
	all.Wait()
	return sum.Load()
}

func read(keyFile, imageFile string) (int, error) {
	var err error
	if keys, err = readLines(keyFile); err != nil {
		return 0, err
	}
	config := credentialprovider.DockerConfig{}
	for _, key := range keys {
		config[key] = credentialprovider.DockerConfigEntry{Username: "ada", Password: "secret"}
	}
	keyring = credentialprovider.BasicDockerKeyring{}
	keyring.Add(nil, config)
	images, err = readLines(imageFile)
	return len(images), err
}

func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	return strings.Fields(string(text)), err
}

func match() int {
	sum := 0
	for _, image := range images {
		found, _ := keyring.Lookup(image)
		sum += len(found)
	}
	return sum
}

func pairs() (int, error) {
	sum := 0
	for _, image := range images {
		for _, key := range keys {
			matched, err := credentialprovider.URLsMatchStr(key, image)
			if err != nil {
				return 0, err
			}
			if matched {
				sum++
			}
		}
	}
	return sum, nil
}

func show(image string) (string, error) {
	name, _, _, err := parsers.ParseImageName(image)
	if err != nil {
		return "", err
	}
	found := [][2]string{}
	for _, auth := range lookUp(name) {
		found = append(found, [2]string{auth.Username, auth.Password})
	}
	text, err := json.Marshal(found)
	return string(text), err
}
