package restguard

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"k8s.io/client-go/rest"
)

// Config returns a copy of a config whose clients are protected.
func Config(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.Wrap(Transport)
	return own
}

// Transport returns a transport that returns an [answer.RedirectError] instead of a redirect to another
// server, and an error instead of a redirect that turns a write into a GET. It limits the bodies of
// refusals to [RefusalLimit], and its errors quote no bytes of a broken answer.
func Transport(to http.RoundTripper) http.RoundTripper { return transport{to} }

// Copy returns a copy of a client, with a transport of its own. Only client-go's client can be
// copied; a double is returned as it is.
func Copy(client rest.Interface, wrap func(http.RoundTripper) http.RoundTripper) rest.Interface {
	of, ok := client.(*rest.RESTClient)
	if !ok || of == nil {
		return client
	}
	// All fields but Client are unexported. The copy shares the rate limiter, the warning handler
	// and the rest.
	own := reflect.New(reflect.TypeFor[rest.RESTClient]())
	own.Elem().Set(reflect.ValueOf(of).Elem())
	guarded := own.Interface().(*rest.RESTClient)
	guarded.Client = Client(cmp.Or(of.Client, &http.Client{}), wrap)
	return guarded
}

// WithoutTimeout returns a copy of a client whose requests may take any time, and the timeout that
// they had. A double is returned as it is.
func WithoutTimeout(client rest.Interface) (rest.Interface, time.Duration) {
	of, ok := client.(*rest.RESTClient)
	if !ok || of == nil || of.Client == nil || of.Client.Timeout <= 0 {
		return client, 0
	}
	timeout := of.Client.Timeout
	own := Copy(client, func(to http.RoundTripper) http.RoundTripper { return to }).(*rest.RESTClient)
	own.Client.Timeout = 0
	return own, timeout
}

// Client returns a copy of an HTTP client, with a transport of its own.
func Client(client *http.Client, wrap func(http.RoundTripper) http.RoundTripper) *http.Client {
	own := *client
	if own.Transport == nil {
		own.Transport = http.DefaultTransport
	}
	own.Transport = wrap(own.Transport)
	return &own
}

type transport struct{ http.RoundTripper }

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return response, discreet.HTTP(err)
	}
	if response.StatusCode >= 200 && response.StatusCode <= 299 || response.Body == nil {
		return response, nil
	}
	if err := redirect(r, response); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	response.Body = newRefusal(r.Context(), response.Body)
	return response, nil
}

// redirect returns an error if a response redirects to another server, or turns a write into a GET.
func redirect(r *http.Request, response *http.Response) error {
	keeps := false // the method
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		keeps = r.Method == http.MethodGet || r.Method == http.MethodHead
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		keeps = true
	default:
		return nil
	}
	to, err := r.URL.Parse(response.Header.Get("Location"))
	switch {
	case err != nil:
		// net/http says what is wrong with the location.
	case r.URL.Scheme != to.Scheme || address(r.URL) != address(to):
		return &answer.RedirectError{From: server(r.URL), To: server(to)}
	}
	if !keeps {
		return fmt.Errorf("%s redirects a write (%s) with status %d: net/http would send a GET instead", server(r.URL), r.Method, response.StatusCode)
	}
	return nil
}

// address returns host and port.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = u.Scheme
	} else if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		port = u.Scheme
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// server returns scheme and host. The rest of a redirect may be secret, and of any length.
func server(u *url.URL) string { return cut.Text(u.Scheme+"://"+u.Host, 128) }
