package docscheck

import (
	"regexp"
	"strings"
)

// colours are the series' colours. Orange marks the parts that users have to know, pink marks
// internals, and light blue marks Kubernetes. Parts that are drawn only to compare have no colour.
var colours = map[string]string{
	"yours":      "fill:#ffd9b3,stroke:#b36b00,color:#000",
	"inside":     "fill:#ffd6e7,stroke:#b3386b,color:#000",
	"kubernetes": "fill:#d6ecff,stroke:#2b6ca3,color:#000",
	"plain":      "fill:#fff,stroke:#999,color:#000",
}

var (
	classDef = regexp.MustCompile(`(?m)^ *classDef (\w+) (.*)$`)
	classUse = regexp.MustCompile(`:::(\w+)|^ *class [\w,]+ (\w+)$`)
	quoted   = regexp.MustCompile(`"[^"]*"`)
	unquoted = regexp.MustCompile(`\w[\[({]+[^"\[({]`)

	participant = regexp.MustCompile(`^(?:participant|actor) (\w+)`)
	// speaking is a message, a note or an activation, with one or two participants.
	speaking = regexp.MustCompile(`^(?:(\w+) ?--?(?:>>?|\)|x)[+-]?(\w+): |Note (?:over|left of|right of) (\w+)(?:,(\w+))?: |(?:de)?activate (\w+)$)`)
)

// Diagrams returns one line for each mistake that Mermaid draws without an error. A flowchart has only the shared
// colours, and quotes around each text. A sequence diagram declares each participant in a coloured
// box, which names the participant's goroutine. A test of internal/browser draws each diagram with
// Mermaid: it finds wrong syntax, and diagrams that are too wide.
func Diagrams(r *Repository) []string {
	var problems []string
	for _, block := range r.blocks {
		switch {
		case block.language != "mermaid":
		case strings.HasPrefix(block.text, "sequenceDiagram\n"):
			problems = append(problems, sequence(block)...)
		default:
			problems = append(problems, flowchart(block)...)
		}
	}
	return problems
}

func flowchart(b block) []string {
	defined := map[string]bool{"": true}
	for _, match := range classDef.FindAllStringSubmatch(b.text, -1) {
		defined[match[1]] = true
	}
	var problems []string
	for _, line := range b.lines() {
		if match := classDef.FindStringSubmatch(line.text); match != nil && match[2] != colours[match[1]] {
			problems = append(problems, line.wrong("another colour, or another name, than on the other pages: %s", match[1]))
		}
		for _, match := range classUse.FindAllStringSubmatch(line.text, -1) {
			if name := match[1] + match[2]; !defined[name] {
				problems = append(problems, line.wrong("there is no classDef %s", name))
			}
		}
		if unquoted.MatchString(quoted.ReplaceAllString(line.text, `""`)) {
			problems = append(problems, line.wrong("a text has no quotes: %s", strings.TrimSpace(line.text)))
		}
	}
	return problems
}

func sequence(b block) []string {
	declared := map[string]bool{"": true}
	inBox := false
	var problems []string
	for _, line := range b.lines() {
		line.text = strings.TrimSpace(line.text)
		if strings.ContainsAny(line.text, ";#") {
			problems = append(problems, line.wrong("a semicolon ends a statement, and a # begins a character's number: %s", line.text))
		}
		if match := speaking.FindStringSubmatch(line.text); match != nil {
			for _, name := range match[1:] {
				if !declared[name] {
					problems = append(problems, line.wrong("there is no participant %s", name))
				}
			}
		}
		name := participant.FindStringSubmatch(line.text)
		switch {
		case strings.HasPrefix(line.text, "box "):
			if inBox = true; !strings.HasPrefix(line.text, "box rgb(") {
				problems = append(problems, line.wrong("the box has no colour"))
			}
		case line.text == "end":
			inBox = false
		case name != nil:
			declared[name[1]] = true
			if !inBox {
				problems = append(problems, line.wrong("%s is in no box, whose colour is that of its goroutine", name[1]))
			}
		}
	}
	return problems
}
