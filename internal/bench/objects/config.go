package objects

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	revisions    = 10    // of a Helm release
	leastRelease = 4_000 // bytes of one
	releaseRange = 15    // the largest is so many times as large
)

// Secrets makes Secrets of the mix [Field].
func Secrets(n int) []*corev1.Secret {
	m := newMaker(Field, Size{n, 100, 1})
	registry := map[string][]byte{corev1.DockerConfigJsonKey: m.compressed(300)}
	all := make([]*corev1.Secret, n)
	for i := range all {
		s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
		switch i % 5 {
		case 0:
			release := i / 5
			app, revision := fmt.Sprintf("app-%04d", release/revisions), fmt.Sprint(1+release%revisions)
			s.ObjectMeta = m.meta("helm", "sh.helm.release.v1."+app+".v"+revision, release/revisions,
				`{"f:data":{".":{},"f:release":{}},"f:metadata":{"f:labels":{".":{},"f:modifiedAt":{},"f:name":{},"f:owner":{},"f:status":{},"f:version":{}}},"f:type":{}}`)
			s.Labels = map[string]string{"name": app, "owner": "helm", "status": "superseded", "version": revision, "modifiedAt": fmt.Sprint(s.CreationTimestamp.Unix())}
			s.Type, s.Data = "helm.sh/release.v1", map[string][]byte{"release": m.compressed(int(leastRelease * math.Pow(releaseRange, m.random.Float64())))}
		case 1:
			s.ObjectMeta = m.meta("kubectl-create", fmt.Sprintf("registry-%d", i/5/m.size.Namespaces), i/5, `{"f:data":{".":{},"f:.dockerconfigjson":{}},"f:type":{}}`)
			s.Type, s.Data = corev1.SecretTypeDockerConfigJson, registry
		default:
			s.ObjectMeta = m.meta("kubectl-create", "login-"+m.word(8), i, `{"f:data":{".":{},"f:password":{},"f:username":{}},"f:type":{}}`)
			s.Type, s.Data = corev1.SecretTypeOpaque, map[string][]byte{"username": []byte(m.word(8)), "password": []byte(m.word(32))}
		}
		all[i] = s
	}
	return all
}

// ConfigMaps makes ConfigMaps of the mix [Field].
func ConfigMaps(n int) []*corev1.ConfigMap {
	m := newMaker(Field, Size{n, max(1, n/20), 1})
	root := map[string]string{"ca.crt": "-----BEGIN CERTIFICATE-----\n" + string(m.compressed(1100)) + "\n-----END CERTIFICATE-----\n"}
	all := make([]*corev1.ConfigMap, n)
	for i := range all {
		c := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		if i%20 == 0 {
			c.ObjectMeta = m.meta("kube-controller-manager", "kube-root-ca.crt", i/20, `{"f:data":{".":{},"f:ca.crt":{}}}`)
			c.Data = root
		} else {
			c.ObjectMeta = m.meta("kubectl-client-side-apply", "config-"+m.word(8), i, `{"f:data":{".":{},"f:config.yaml":{}}}`)
			var lines strings.Builder
			for range 10 + m.random.IntN(60) {
				fmt.Fprintf(&lines, "%s:\n  address: %s.example.com:%d\n", m.word(8), m.word(8), m.random.IntN(1<<16))
			}
			c.Data = map[string]string{"config.yaml": lines.String()}
		}
		all[i] = c
	}
	return all
}

func newMaker(mix Mix, size Size) *maker {
	return &maker{random: rand.New(rand.NewPCG(5, 6)), mix: mix, size: size}
}

// meta returns the metadata of an object that one manager wrote.
func (m *maker) meta(manager, name string, namespace int, fields string) metav1.ObjectMeta {
	created := metav1.NewTime(time.Unix(1_750_000_000+m.random.Int64N(10_000_000), 0))
	return metav1.ObjectMeta{
		Name: name, Namespace: m.namespaceOf(namespace), UID: m.uid(), CreationTimestamp: created,
		ManagedFields: []metav1.ManagedFieldsEntry{managedBy(manager, "", created, fields)},
	}
}

// compressed returns so many bytes that compress no better than base64 of compressed data does.
func (m *maker) compressed(size int) []byte {
	raw := make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(m.random.Uint32())
	}
	return base64.StdEncoding.AppendEncode(nil, raw)
}
