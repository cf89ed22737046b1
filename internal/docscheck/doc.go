// Package docscheck checks the documentation of this repository. Its tests run each check on the
// repository, and on small examples of each mistake.
//
//   - [Links], [Figures]: relative links lead to a file and its heading, the linked name of code is declared
//     in the linked file, and linked numbers are in the linked section, as measured figures and not as goals.
//   - [Results], [Charts]: figures of benchmarks are those of the runs in docs/reference/results, cell by cell. The
//     flag -update of the tests writes the figures of new runs into the pages.
//   - [Excerpts], [Outputs]: Go on a page is in a file that the page links to, and tests expect the
//     outputs that pages show.
//   - [Mentions], [Tests], [Commands], [Examples]: names, tests, folders of commands and examples
//     exist, each example has its row, and commands copy into bash and zsh.
//   - [Outdated]: no page or comment announces a package or name that exists.
//   - [Promises]: each guarantee of a doc.go has its own id and a row with tests, and each cited id
//     exists.
//   - [Diagrams]: diagrams have the shared colours, and declare what they draw. The tests of
//     internal/browser draw them with Mermaid, and check their width.
//   - [Packages], [Names], [Attached]: packages and exported names have comments, which staticcheck
//     does not require, and go doc shows each testable example.
//   - [Budgets]: packages export exactly as many names and methods as their budgets say.
//
// With -commands, TestCommandsPrintWhatThePagesSay runs the commands and programs of the pages. It
// sets KUBECONFIG, so that none of them reaches a cluster. This takes minutes, so that it is a step
// of .ci/run.
package docscheck
