package protocol

import (
	"time"

	"github.com/kubereflector/kubereflector/internal/versions"
)

// listing is the current list.
type listing struct {
	version string // the requested version
	first   string // version of the first page, which is the version of the list
	next    string // token of the requested page
	limit   int64
	whole   bool // an expired page token made the reflector list without pages
	cycle   cycle
	began   time.Time
	pages   int64 // received pages
	// paged is true once the server has split a list at version "0" into pages. It then has no
	// watch cache that pages would bypass.
	paged bool
}

const (
	// maxListTime and maxListed bound a list whose continue tokens never end, and maxListTime a
	// watch-list. etcd holds less than ten million objects; 2,000 pages of 500 take a minute or two.
	maxListTime = 30 * time.Minute
	maxListed   = 10_000_000
	defaultPage = 500
)

// list requests the first page of a list. Version "0" means the current content of the server's
// watch cache. It is cheap, but an API server that lags behind shows an older state than the program
// may have seen before its restart. Since Kubernetes 1.34 the newest state comes in pages from the
// watch cache, too, so the reflector asks such a server for that. It asks for the server's version
// once, and only if it needs such a list.
func (p *step) list() {
	version := p.known()
	if version == "" && !p.unavailable && !p.consistent {
		if p.AsksVersion && !p.versionAsked {
			p.phase, p.versionAsked = inquiring, true
			p.do(Action{Do: AskVersion})
			return
		}
		version = "0"
	}
	// A watch cache answers a list at a version only as a whole; the server sends a list with a
	// limit to etcd. At "0" a watch cache ignores the limit, so the limit only affects servers
	// without one.
	limit := p.PageSize
	if version != "" && version != "0" && !p.AlwaysPage && !p.listing.paged {
		limit = 0
	}
	p.ask(listing{version: version, limit: limit, paged: p.listing.paged})
}

func (p *step) ask(l listing) {
	l.began = p.now
	p.phase, p.listing = paging, l
	p.do(Action{Do: Discard}, Action{Do: AskPage, Version: l.version, Limit: l.limit})
}

// page handles a page of a list.
func (p *step) page(in Input) {
	switch {
	case p.phase == probing && in.Version == "" && !in.Conflict:
		// Whatever is in front of the server may have answered: see poll.go.
		probeAgain(p, NoResourceVersion)
	case p.phase == probing:
		p.probed(in)
	case in.Version == "" && p.listing.pages == 0 && p.position != "" && !p.losesVersions():
		retry(p, NoResourceVersion)
	case in.Next != "" && p.listing.cycle.closes(in.Next):
		retry(p, RepeatedPage)
	case in.Next != "" && p.listing.endless(p.now):
		retry(p, EndlessList)
	default:
		p.keep(in)
	}
}

// keep takes a page, whose objects were staged as they arrived, into the list. It asks for the next page or
// replaces the store's content.
func (p *step) keep(in Input) {
	if p.listing.pages == 0 {
		// Later pages may be newer, if the server could not keep the first state that long. The
		// watch then repeats changes that those pages already contain.
		p.beginsAt(in.Version)
	}
	p.listing.pages++
	if in.Next == "" {
		p.compare(OpList)
		p.phase = replacing
		p.do(Action{Do: Replace, Version: p.listing.first})
		return
	}
	p.listing.next = in.Next
	p.listing.paged = p.listing.paged || p.listing.version == "0"
	p.do(Action{Do: AskPage, Next: in.Next, Limit: p.listing.limit})
}

// beginsAt records the version of a list. That the server has versions does not depend on whether the list
// becomes complete, or on whether the store takes it.
func (p *step) beginsAt(version string) {
	p.listing.first = version
	if version != "" {
		p.lostVersions = loss{}
	}
}

// compare reports a complete list that is older than the store, before the store takes it: nobody
// else learns that the store goes back to an older state.
func (p *step) compare(op Op) {
	if !p.lost && versions.Later(p.position, p.listing.first) {
		p.do(Action{Do: Report, Err: ServerBehind, Op: op})
	}
}

// endless reports whether an unfinished list exceeds maxListTime or maxListed. A page without a
// limit counts as one of the default size.
func (l *listing) endless(now time.Time) bool {
	size := l.limit
	if size == 0 {
		size = defaultPage
	}
	return now.Sub(l.began) > maxListTime || l.pages >= maxListed/size
}

// cycle detects whether a sequence of continue tokens repeats. It uses Brent's algorithm, which
// keeps one token in memory. The zero cycle is ready to use.
type cycle struct {
	mark        string
	steps, laps int
}

// closes reports whether the token occurred before.
func (c *cycle) closes(token string) bool {
	if token == c.mark {
		return true
	}
	if c.steps == c.laps {
		c.mark, c.steps, c.laps = token, 0, 2*c.laps+1
	}
	c.steps++
	return false
}
