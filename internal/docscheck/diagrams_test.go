package docscheck

import "testing"

func TestDiagrams(t *testing.T) {
	const colour = "classDef yours fill:#ffd9b3,stroke:#b36b00,color:#000\n"
	tests := map[string]pageTest{
		"a flowchart": {"flowchart LR\n%% a remark\nsubgraph in [\"inside\"]\ndirection TB\na[\"A (x)\"]:::yours --> b(\"B\") -->|\"a label\"| c{\"C\"}\nend\nc -.-> d[(\"D\")]\n" +
			"    " + colour + "class b,c yours", nil},
		"a sequence": {"sequenceDiagram\nautonumber\nbox rgb(255,217,179) yours\nparticipant a as A\nactor x\nend\na->>+x: ask\nx-->>-a: answer\nactivate a\n" +
			"Note over a,x: text\nloop often\nalt one\na-)x: z\nelse other\nx->>a: y\nend\nend\ndeactivate a", nil},
		"other colours": {"flowchart LR\n" + colour + "classDef inside fill:#fff\nclassDef red fill:#f00", []string{
			"page.md:4: another colour, or another name, than on the other pages: inside",
			"page.md:5: another colour, or another name, than on the other pages: red"}},
		"undefined classes":   {"flowchart LR\na:::x --> b\nclass c y", []string{"page.md:3: there is no classDef x", "page.md:4: there is no classDef y"}},
		"text without quotes": {"flowchart LR\na[f] --> b([\"g\"])", []string{`page.md:3: a text has no quotes: a[f] --> b(["g"])`}},
		"undeclared participants": {"sequenceDiagram\na->>b: x\nNote over c: y\nactivate d", []string{"page.md:3: there is no participant a",
			"page.md:3: there is no participant b", "page.md:4: there is no participant c", "page.md:5: there is no participant d"}},
		"boxes": {"sequenceDiagram\nbox rgb(1,2,3) one\nparticipant a\nend\nparticipant b as B\nbox two\nactor c\nend", []string{
			"page.md:6: b is in no box, whose colour is that of its goroutine", "page.md:7: the box has no colour"}},
		"a semicolon": {"sequenceDiagram\nloop x; y\nend", []string{"page.md:3: a semicolon ends a statement, and a # begins a character's number: loop x; y"}},
	}
	for name, test := range tests {
		test.page = "```mermaid\n" + test.page + "\n```\n"
		tests[name] = test
	}
	each(t, "Diagrams", "page.md", tests, nil)
}
