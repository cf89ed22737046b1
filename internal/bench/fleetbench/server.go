package fleetbench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// group is the API group of all kinds.
const group = "example.com"

func kindName(n int) string { return fmt.Sprintf("Kind%d", n) }

func plural(n int) string { return fmt.Sprintf("kind%ds", n) }

// server serves kinds with definitions and one object each. Nothing changes, so every watch is silent
// after its first objects.
type server struct {
	kinds    int
	requests atomic.Int64
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api", s.discovery(nil))
	mux.HandleFunc("/apis", s.discovery(s.discovered()))
	mux.HandleFunc("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", s.watch("apiextensions.k8s.io/v1", "CustomResourceDefinition", s.definitions()...))
	mux.HandleFunc("/apis/apiregistration.k8s.io/v1/apiservices", s.watch("apiregistration.k8s.io/v1", "APIService"))
	for n := range s.kinds {
		whole, metadata := s.watch(group+"/v1", kindName(n), object(group+"/v1", kindName(n), n)), s.watch("meta.k8s.io/v1", "PartialObjectMetadata", object("meta.k8s.io/v1", "PartialObjectMetadata", n))
		mux.HandleFunc("/apis/"+group+"/v1/"+plural(n), func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
				metadata(w, r)
				return
			}
			whole(w, r)
		})
	}
	return mux
}

// object returns the object of a kind.
func object(apiVersion, kind string, n int) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"only","namespace":"a","uid":"u%d","resourceVersion":"5"}}`, apiVersion, kind, n)
}

func (s *server) discovered() []apidiscovery.APIGroupDiscovery {
	of := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group}, Versions: []apidiscovery.APIVersionDiscovery{{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent}}}
	for n := range s.kinds {
		of.Versions[0].Resources = append(of.Versions[0].Resources, apidiscovery.APIResourceDiscovery{
			Resource: plural(n), Scope: apidiscovery.ScopeNamespace, Verbs: []string{"list", "watch"},
			ResponseKind: &metav1.GroupVersionKind{Group: group, Version: "v1", Kind: kindName(n)},
		})
	}
	return []apidiscovery.APIGroupDiscovery{of}
}

func (s *server) definitions() []string {
	var all []string
	for n := range s.kinds {
		all = append(all, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[2]s.%[1]s","uid":"d%[4]d","resourceVersion":"4"},`+
			`"spec":{"group":"%[1]s","names":{"kind":"%[3]s","plural":"%[2]s"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%[5]s}}]},`+
			`"status":{"acceptedNames":{"kind":"%[3]s","plural":"%[2]s"},"conditions":[{"type":"Established","status":"True"}]}}`, group, plural(n), kindName(n), n, openAPI))
	}
	return all
}

// openAPI is a schema of a few kilobytes, as a small definition has it.
var openAPI = `{"type":"object","properties":{` + strings.TrimSuffix(strings.Repeat(`"a field with a long name":{"type":"string","description":"what a generator copies from the comment of a field, which is often a sentence or two, or a whole paragraph"},`, 20), ",") + `}}`

func (s *server) discovery(groups []apidiscovery.APIGroupDiscovery) http.HandlerFunc {
	list := apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}, Items: groups}
	answer, err := json.Marshal(list)
	return func(w http.ResponseWriter, _ *http.Request) {
		s.requests.Add(1)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_, _ = w.Write(answer)
	}
}

// watch answers a watch that begins with the objects of a kind.
func (s *server) watch(apiVersion, kind string, objects ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if query := r.URL.Query(); query.Get("sendInitialEvents") != "true" {
			http.Error(w, "only watch-lists", http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for _, object := range objects {
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", object)
		}
		_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind, apiVersion)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}
