package reflectortest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/tidwall/btree"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listOptions reads and checks the query with the code of the real server.
func (c *call) listOptions() (*internalversion.ListOptions, error) {
	opts := &internalversion.ListOptions{}
	if err := internalscheme.ParameterCodec.DecodeParameters(c.Query, metav1.SchemeGroupVersion, opts); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	opts.Watch = c.Verb == "watch"
	internalversion.SetListOptionsDefaults(opts, true)
	if errs := validation.ValidateListOptions(opts, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if opts.FieldSelector != nil {
		var err error
		if opts.FieldSelector, err = opts.FieldSelector.Transform(c.resource.convertField); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if c.Name != "" { // the deprecated /watch/.../name
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", c.Name)
	}
	return opts, nil
}

func (c *call) selection(opts *internalversion.ListOptions) selection {
	return selection{resource: c.resource, namespace: c.Namespace, labels: opts.LabelSelector, fields: opts.FieldSelector}
}

// parseVersion reads a resource version; empty is 0, as in the real server.
func parseVersion(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", s, err)
	}
	return v, nil
}

func (c *call) get() error {
	version, err := parseVersion(c.Query.Get("resourceVersion"))
	if err != nil {
		return err
	}
	c.server.mu.Lock()
	current := c.server.version
	rec, ok := c.resource.history.current.Get(c.resource.key(c.Namespace, c.Name))
	c.server.mu.Unlock()
	if version > current {
		return errVersionTooLarge(version, current)
	}
	if !ok {
		return apierrors.NewNotFound(c.resource.gr(), c.Name)
	}
	return c.answer(http.StatusOK, rec)
}

// A page is the part of a state in one list answer.
type page struct {
	version uint64 // of the list
	records []*record
	next    string // the start of the rest, relative to the namespace; empty at the end
	rest    int64
	shards  *shardSelection // the selected shards; nil if there is no selector
}

func (c *call) list() error {
	opts, err := c.listOptions()
	if err != nil {
		return err
	}
	p, err := c.page(opts)
	if err != nil {
		return err
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.version, 10)}
	if p.next != "" {
		meta.Continue = encodeContinue(p.next, int64(p.version))
		if !c.selection(opts).selects() {
			meta.RemainingItemCount = &p.rest
		}
	}
	if p.shards != nil && c.resource.typed {
		// The real server's lists of custom resources have no field for it.
		meta.ShardInfo = &metav1.ShardInfo{Selector: p.shards.text}
	}
	return c.answerList(meta, p.records)
}

// page chooses the state of the list, as the API concepts page defines it, and cuts the page out of
// it.
func (c *call) page(opts *internalversion.ListOptions) (*page, error) {
	shards, err := c.shardSelector(opts.ShardSelector)
	if err != nil {
		return nil, err
	}
	wanted, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		(opts.ResourceVersionMatch == "" && opts.Limit > 0 && wanted > 0)
	start := ""
	continues := opts.Continue != ""
	if continues {
		if wanted > 0 {
			return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		var version int64
		if start, version, err = decodeContinue(opts.Continue); err != nil {
			return nil, apierrors.NewBadRequest("invalid continue token: " + err.Error())
		}
		// A negative version marks an inconsistent continuation, at the current version.
		exact, wanted = version > 0, uint64(max(version, 0))
	}
	limit := opts.Limit
	if opts.ResourceVersion == "0" && !continues {
		limit = 0 // the real server answers this from its watch cache, which has no pages
	}
	state, version, err := c.state(wanted, exact)
	switch {
	case continues && apierrors.IsResourceExpired(err):
		return nil, errContinueExpired(start)
	case err != nil:
		return nil, err
	case c.expireContinue:
		return nil, errContinueExpired(start)
	}
	selected := c.selection(opts)
	selected.shards = shards
	p := cut(state, version, selected, start, limit)
	p.shards = shards
	return p, nil
}

// state returns the objects at a version: exactly at it, or the current ones if they are recent
// enough.
func (c *call) state(wanted uint64, exact bool) (*btree.Map[string, *record], uint64, error) {
	s, h := c.server, c.resource.history
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case wanted > s.version:
		return nil, 0, errVersionTooLarge(wanted, s.version)
	case !exact:
		return h.current.Copy(), s.version, nil
	case wanted < h.compacted:
		return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	default:
		return h.at(wanted), wanted, nil
	}
}

// cut walks the state from start, relative to the selection's namespace.
func cut(state *btree.Map[string, *record], version uint64, sel selection, start string, limit int64) *page {
	p := &page{version: version}
	prefix := ""
	if sel.namespace != "" {
		prefix = sel.namespace + "/"
	}
	state.Ascend(prefix+start, func(key string, rec *record) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if limit > 0 && int64(len(p.records)) == limit {
			// Like the real server, do not check whether the remaining objects match.
			if p.next == "" {
				p.next = strings.TrimPrefix(p.records[limit-1].key, prefix) + "\x00"
			}
			p.rest++
			return !sel.selects()
		}
		if sel.matches(rec) {
			p.records = append(p.records, rec.in(sel.resource))
		}
		return true
	})
	return p
}

// answerList writes a list, with one frame for each item.
func (c *call) answerList(meta metav1.ListMeta, records []*record) error {
	size := 0
	if c.encoding.protobuf {
		for _, rec := range records {
			size += c.encoding.itemSize(rec)
		}
	}
	env, err := c.encoding.newListEnvelope(c.resource, meta, size)
	if err != nil {
		return err
	}
	c.out.start(http.StatusOK, c.encoding.contentType(false))
	if err := c.out.frame(&frame{bytes: env.head}); err != nil {
		return err
	}
	var buf []byte
	for i, rec := range records {
		buf = env.appendItem(buf[:0], rec)
		if err := c.out.frame(&frame{number: i + 1, bytes: buf}); err != nil {
			return err
		}
	}
	return c.out.frame(&frame{number: -1, bytes: env.tail})
}

// continueToken has the fields and the encoding of the real server's token.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	Start           string `json:"start"`
}

func encodeContinue(start string, version int64) string {
	b, err := json.Marshal(continueToken{APIVersion: "meta.k8s.io/v1", ResourceVersion: version, Start: start})
	if err != nil {
		panic("reflectortest: a continue token does not encode: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeContinue(s string) (start string, version int64, err error) {
	const invalid = "continue key is not valid"
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return "", 0, fmt.Errorf(invalid+": %w", err)
	}
	var t continueToken
	if err := json.Unmarshal(b, &t); err != nil {
		return "", 0, fmt.Errorf(invalid+": %w", err)
	}
	switch {
	case t.APIVersion != "meta.k8s.io/v1":
		return "", 0, fmt.Errorf(invalid+": server does not recognize this encoded version %v", t.APIVersion)
	case t.ResourceVersion == 0:
		return "", 0, errors.New(invalid + ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return "", 0, errors.New(invalid + ": encoded start key empty (version meta.k8s.io/v1)")
	case path.Clean("/"+t.Start) != "/"+t.Start:
		return "", 0, fmt.Errorf(invalid+": %v", t.Start)
	}
	return t.Start, t.ResourceVersion, nil
}

// errContinueExpired contains a token that continues at the current state.
func errContinueExpired(start string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = encodeContinue(start, -1)
	return err
}
