package docscheck

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// Mermaid returns one line for each line of a diagram that it cannot parse. It knows the syntax
// that these pages use: flowcharts with subgraphs, classes and labelled arrows, and sequence
// diagrams with boxes, notes, activations and blocks. A diagram must declare each participant and
// each class that it uses, and must close each block that it opens.
func Mermaid(repository fs.FS) ([]string, error) {
	pages, err := files(repository, ".md")
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, page := range pages {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		for _, block := range blocks(string(text), "mermaid") {
			for _, problem := range diagram(block.text) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", page, block.number+problem.number, problem.text))
			}
		}
	}
	return problems, nil
}

var (
	flowchartHead = regexp.MustCompile(`^(?:flowchart|graph) (?:TB|TD|BT|LR|RL)$`)
	classDef      = regexp.MustCompile(`^classDef (\w+) [a-z-]+:[#\w]+(?:,[a-z-]+:[#\w]+)*;?$`)
	class         = regexp.MustCompile(`^class (\w+(?:,\w+)*) (\w+);?$`)
	subgraph      = regexp.MustCompile(`^subgraph (\w+)(?: ?\["[^"]+"\])?$`)
	// node is a name with or without a shape, whose text is in quotes; :::class may follow.
	node      = regexp.MustCompile(`^(\w+)(?:\["[^"]+"\]|\("[^"]+"\)|\(\["[^"]+"\]\)|\[\("[^"]+"\)\]|\{"[^"]+"\})?(?::::(\w+))?`)
	arrow     = regexp.MustCompile(`^ *(?:-->|---|-\.->|==>)(?:\|"[^"]+"\|)? *`)
	direction = regexp.MustCompile(`^direction (?:TB|TD|BT|LR|RL)$`)

	participant = regexp.MustCompile(`^(?:participant|actor) (\w+)(?: as .+)?$`)
	message     = regexp.MustCompile(`^(\w+) ?(?:-->>|->>|-->|->|--\)|-\)|--x|-x)([+-]?)(\w+): .+$`)
	activation  = regexp.MustCompile(`^(activate|deactivate) (\w+)$`)
	note        = regexp.MustCompile(`^Note (?:over|left of|right of) (\w+)(?:,(\w+))?: .+$`)
	opening     = regexp.MustCompile(`^(?:loop|alt|opt|par|critical|rect|box)\b`)
	middle      = regexp.MustCompile(`^(?:else|and|option)\b`)
)

// diagram returns the errors of one diagram, with their line numbers.
func diagram(text string) []line {
	var lines []line
	for i, text := range strings.Split(text, "\n") {
		if text = strings.TrimSpace(text); text != "" && !strings.HasPrefix(text, "%%") {
			lines = append(lines, line{i + 1, text})
		}
	}
	switch {
	case len(lines) == 0:
		return []line{{1, "the diagram is empty"}}
	case flowchartHead.MatchString(lines[0].text):
		return flowchart(lines[1:])
	case lines[0].text == "sequenceDiagram":
		return sequence(lines[1:])
	}
	return []line{{lines[0].number, fmt.Sprintf("no diagram begins with %q", lines[0].text)}}
}

// drawing is the state of the parser within one diagram.
type drawing struct {
	open     []int           // lines on which something was opened that needs an end
	declared map[string]bool // nodes or participants
	classes  map[string]bool
	used     []line // classes, and nodes of class statements, to be looked up at the end
	active   map[string]int
	problems []line
}

func (d *drawing) wrong(at int, format string, arguments ...any) {
	d.problems = append(d.problems, line{at, fmt.Sprintf(format, arguments...)})
}

func (d *drawing) end(at int) {
	if len(d.open) == 0 {
		d.wrong(at, "there is nothing to end")
		return
	}
	d.open = d.open[:len(d.open)-1]
}

func (d *drawing) finish() []line {
	for _, at := range d.open {
		d.wrong(at, "it has no end")
	}
	return d.problems
}

func flowchart(lines []line) []line {
	d := &drawing{declared: map[string]bool{}, classes: map[string]bool{}}
	for _, l := range lines {
		switch {
		case l.text == "end":
			d.end(l.number)
		case direction.MatchString(l.text):
		case classDef.MatchString(l.text):
			d.classes[classDef.FindStringSubmatch(l.text)[1]] = true
		case class.MatchString(l.text):
			match := class.FindStringSubmatch(l.text)
			for name := range strings.SplitSeq(match[1], ",") {
				d.used = append(d.used, line{l.number, name})
			}
			d.used = append(d.used, line{l.number, ":" + match[2]})
		case subgraph.MatchString(l.text):
			d.open = append(d.open, l.number)
			d.declared[subgraph.FindStringSubmatch(l.text)[1]] = true
		default:
			d.edges(l)
		}
	}
	for _, use := range d.used {
		if name, isClass := strings.CutPrefix(use.text, ":"); isClass && !d.classes[name] {
			d.wrong(use.number, "there is no classDef %s", name)
		} else if !isClass && !d.declared[name] {
			d.wrong(use.number, "there is no node %s", name)
		}
	}
	return d.finish()
}

// edges reads a node, or several with arrows between them.
func (d *drawing) edges(l line) {
	rest := l.text
	for {
		match := node.FindStringSubmatch(rest)
		if match == nil || match[1] == "end" {
			d.wrong(l.number, "not understood: %s", l.text)
			return
		}
		d.declared[match[1]] = true
		if match[2] != "" {
			d.used = append(d.used, line{l.number, ":" + match[2]})
		}
		rest = rest[len(match[0]):]
		if rest == "" {
			return
		}
		between := arrow.FindString(rest)
		if between == "" {
			d.wrong(l.number, "not understood: %s", l.text)
			return
		}
		rest = rest[len(between):]
	}
}

func sequence(lines []line) []line {
	d := &drawing{declared: map[string]bool{}, active: map[string]int{}}
	for _, l := range lines {
		switch {
		case strings.ContainsAny(l.text, ";#"):
			d.wrong(l.number, "a semicolon ends a statement, and a # begins a character's number: %s", l.text)
		case l.text == "end":
			d.end(l.number)
		case l.text == "autonumber":
		case opening.MatchString(l.text):
			d.open = append(d.open, l.number)
		case middle.MatchString(l.text):
			if len(d.open) == 0 {
				d.wrong(l.number, "nothing is open that could have another branch")
			}
		case participant.MatchString(l.text):
			d.declared[participant.FindStringSubmatch(l.text)[1]] = true
		case activation.MatchString(l.text):
			match := activation.FindStringSubmatch(l.text)
			d.taking(l.number, match[2])
			d.activate(l.number, match[2], map[string]int{"activate": 1, "deactivate": -1}[match[1]])
		case message.MatchString(l.text):
			match := message.FindStringSubmatch(l.text)
			d.taking(l.number, match[1], match[3])
			switch match[2] {
			case "+":
				d.activate(l.number, match[3], 1)
			case "-":
				d.activate(l.number, match[1], -1)
			}
		case note.MatchString(l.text):
			match := note.FindStringSubmatch(l.text)
			d.taking(l.number, match[1], match[2])
		default:
			d.wrong(l.number, "not understood: %s", l.text)
		}
	}
	for name, times := range d.active {
		if times > 0 {
			d.wrong(1, "%s is never deactivated", name)
		}
	}
	return d.finish()
}

// taking reports the participants of a sequence diagram that are not declared.
func (d *drawing) taking(at int, names ...string) {
	for _, name := range names {
		if name != "" && !d.declared[name] {
			d.wrong(at, "there is no participant %s", name)
		}
	}
}

func (d *drawing) activate(at int, name string, by int) {
	if d.active[name] += by; d.active[name] < 0 {
		d.wrong(at, "%s is not active", name)
		d.active[name] = 0
	}
}
