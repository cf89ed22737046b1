package docscheck

import (
	"fmt"
	"io/fs"
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

// Colours returns one line for each class of a flowchart that is not one of the shared colours. It
// also returns one line for each participant of a sequence diagram outside a coloured box, because
// the box names the participant's goroutine.
func Colours(repository fs.FS) ([]string, error) {
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
			inBox := false
			for i, text := range strings.Split(block.text, "\n") {
				text = strings.TrimSpace(text)
				wrong := func(format string, arguments ...any) {
					problems = append(problems, fmt.Sprintf("%s:%d: ", page, block.number+1+i)+fmt.Sprintf(format, arguments...))
				}
				switch {
				case strings.HasPrefix(text, "box "):
					if inBox = true; !strings.HasPrefix(text, "box rgb(") {
						wrong("the box has no colour")
					}
				case text == "end":
					inBox = false
				case participant.MatchString(text) && !inBox:
					wrong("%s is in no box, whose colour is that of its goroutine", participant.FindStringSubmatch(text)[1])
				case classDef.MatchString(text):
					name := classDef.FindStringSubmatch(text)[1]
					if want := "classDef " + name + " " + colours[name]; text != want {
						wrong("another colour, or another name, than on the other pages: %s", name)
					}
				}
			}
		}
	}
	return problems, nil
}
