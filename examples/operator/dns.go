package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// dns is a client of the external DNS API, which has one record for each Site:
//
//	PUT    /records/UID?generation=3   {"host": "shop.example.com"}
//	DELETE /records/UID?generation=4
//
// The UID in the path makes a repeated request harmless. The API refuses a generation that is lower
// than the last one of the record. So a PUT that arrives late, after its time-out or from an
// earlier leader, cannot undo a later DELETE.
type dns struct {
	url    string
	client *http.Client // its Timeout limits each request
}

// record is the body of a PUT.
type record struct {
	Host string `json:"host"`
}

// register gives a Site its host.
func (d *dns) register(ctx context.Context, site *Site) error {
	return d.send(ctx, http.MethodPut, site, record{site.Spec.Host})
}

// unregister deletes the record of a Site. A missing record is no error.
func (d *dns) unregister(ctx context.Context, site *Site) error {
	return d.send(ctx, http.MethodDelete, site, nil)
}

func (d *dns) send(ctx context.Context, method string, site *Site, content any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	url := d.url + "/records/" + string(site.UID) + "?generation=" + strconv.FormatInt(site.Generation, 10)
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return &problem{reason: "DNSFailed", err: err}
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // a part of the text is better than none
	err = fmt.Errorf("%s of host %q: %s: %s", method, site.Spec.Host, response.Status, bytes.TrimSpace(text))
	switch code := response.StatusCode; {
	case code < 300, code == http.StatusNotFound && method == http.MethodDelete:
		return nil
	case method == http.MethodPut && (code == http.StatusBadRequest || code == http.StatusUnprocessableEntity):
		return &problem{reason: "HostRefused", err: err, final: true}
	default:
		return &problem{reason: "DNSFailed", err: err}
	}
}
