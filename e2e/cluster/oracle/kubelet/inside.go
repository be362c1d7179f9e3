// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubelet/pkg/apis/credentialprovider"
	v1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	_ "k8s.io/kubernetes/pkg/credentialprovider/plugin"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
)

// Unexported functions of the kubelet. They do not change, because the version is pinned.

//go:linkname readCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.readCredentialProviderConfig
func readCredentialProviderConfig(path string) (*config.CredentialProviderConfig, string, error)

//go:linkname validateCredentialProviderConfig k8s.io/kubernetes/pkg/credentialprovider/plugin.validateCredentialProviderConfig
func validateCredentialProviderConfig(c *config.CredentialProviderConfig, tokens bool) field.ErrorList

//go:linkname generateServiceAccountCacheKey k8s.io/kubernetes/pkg/credentialprovider/plugin.generateServiceAccountCacheKey
func generateServiceAccountCacheKey(params cacheKeyParams) (string, error)

//go:linkname generateCacheKey k8s.io/kubernetes/pkg/credentialprovider/plugin.generateCacheKey
func generateCacheKey(base, account string) (string, error)

//go:linkname codecs k8s.io/kubernetes/pkg/credentialprovider/plugin.codecs
var codecs serializer.CodecFactory

// cacheKeyParams must have the fields of the kubelet's type of the same name.
type cacheKeyParams struct {
	namespace          string
	serviceAccountName string
	serviceAccountUID  types.UID
	saAnnotations      map[string]string
	podName            string
	podUID             types.UID
	saTokenHash        string
	cacheType          config.ServiceAccountTokenCacheType
}

func readConfig(path string) (answer, error) {
	c, hash, err := readCredentialProviderConfig(path)
	if err != nil {
		return nil, err
	}
	errs := validateCredentialProviderConfig(c, true)
	names := []string{}
	for _, p := range c.Providers {
		if p.Name == "" {
			// The kubelet would then fail because the path is the provider directory and not a program.
			errs = append(errs, field.Required(field.NewPath("providers", "name"), ""))
		}
		names = append(names, p.Name)
	}
	if len(errs) > 0 {
		fields := sets.New[string]()
		for _, e := range errs {
			fields.Insert(e.Field)
		}
		return answer{"error": errs.ToAggregate().Error(), "fields": sets.List(fields)}, nil
	}
	return answer{"providers": names, "hash": hash}, nil
}

// encodeRequest returns the request as a provider of this API version gets it.
func encodeRequest(q *query) (string, error) {
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), "application/json")
	if !ok {
		return "", errors.New("ORACLE: no JSON")
	}
	gv := v1.SchemeGroupVersion
	gv.Version = q.Version
	data, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, gv), &credentialprovider.CredentialProviderRequest{
		Image: q.Image, ServiceAccountToken: q.Token, ServiceAccountAnnotations: q.Annotations,
	})
	return string(data), err
}

// decodeResponse does what ExecPlugin and provide of the kubelet do.
func decodeResponse(q *query) (answer, error) {
	data := []byte(q.Answer)
	gvk, err := json.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, err
	}
	if gvk.GroupVersion().String() != credentialprovider.GroupName+"/"+q.Version {
		return nil, errors.New("another version")
	}
	obj, _, err := codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	response, ok := obj.(*credentialprovider.CredentialProviderResponse)
	if !ok {
		return nil, fmt.Errorf("a %T", obj)
	}
	switch response.CacheKeyType {
	case credentialprovider.ImagePluginCacheKeyType, credentialprovider.RegistryPluginCacheKeyType, credentialprovider.GlobalPluginCacheKeyType:
	default:
		return nil, errors.New("no cacheKeyType")
	}
	auths := [][3]string{}
	for _, key := range sorted(response.Auth) {
		auths = append(auths, [3]string{key, response.Auth[key].Username, response.Auth[key].Password})
	}
	a := answer{"cacheKeyType": string(response.CacheKeyType), "auth": auths}
	if response.CacheDuration != nil {
		a["nanoseconds"] = response.CacheDuration.Nanoseconds()
	}
	return a, nil
}

func cacheKey(q *query) (string, error) {
	params := cacheKeyParams{
		namespace: q.Namespace, serviceAccountName: q.Account, serviceAccountUID: types.UID(q.UID), saAnnotations: q.Annotations,
		cacheType: config.ServiceAccountServiceAccountTokenCacheType,
	}
	if q.ByToken {
		params.cacheType = config.TokenServiceAccountTokenCacheType
		params.saTokenHash = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(q.Token)))
	}
	account, err := generateServiceAccountCacheKey(params)
	if err != nil {
		return "", err
	}
	return generateCacheKey(q.Image, account)
}
