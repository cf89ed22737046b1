package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A sample has changes by three rules: the condition of an if is negated, a statement is dropped, or an
// operator is swapped with its neighbour. Conditions of loops stay, because most of those tests would
// only hang. So do lines that log.

// sampleTimeout is short: a change that makes a test hang is noticed as well.
const sampleTimeout = 2 * time.Minute

// swapped has the neighbour of each operator.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// edit replaces the bytes from one offset to another.
type edit struct {
	rule     string
	from, to int
	with     string
}

// trySample draws changes of packages until n of them compile, tries these, and returns how many survived.
func trySample(ctx context.Context, n int, seed uint64, packages []string) (survivors int, err error) {
	if len(packages) == 0 {
		if packages, err = touched(ctx); err != nil {
			return 0, err
		}
	}
	var all []*change
	for _, pkg := range packages {
		of, err := changesOf(".", pkg)
		if err != nil {
			return 0, err
		}
		all = append(all, of...)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("nothing to change in %s: name packages with code, such as ./store", strings.Join(packages, " "))
	}
	fmt.Printf("-seed %d of %d changes in %s\n", seed, len(all), strings.Join(packages, " "))
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all {
		if n == 0 {
			break
		}
		killed, err := c.report(ctx)
		switch {
		case errors.Is(err, errCompile) && ctx.Err() == nil:
			continue
		case err != nil:
			return survivors, fmt.Errorf("%s: %w", c.name, err)
		case !killed:
			survivors++
		}
		n--
	}
	return survivors, nil
}

// touched returns the packages whose code the last commit or the work tree changes.
func touched(ctx context.Context) (packages []string, err error) {
	output, err := exec.CommandContext(ctx, "git", "diff", "--name-only", "--relative", "HEAD~1", "--", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("git diff HEAD~1, for the packages that you have changed: %w; name packages instead", err)
	}
	for file := range strings.Lines(string(output)) {
		pkg := "./" + path.Dir(strings.TrimSpace(file))
		if !strings.HasSuffix(strings.TrimSpace(file), "_test.go") && !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return nil, errors.New("neither the last commit nor the work tree changes code: name packages, such as ./store")
	}
	return packages, nil
}

// changesOf returns all changes of the package in a folder of the checkout at root. Its own tests have to
// notice them.
func changesOf(root, folder string) (all []*change, err error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	tests := "./" + path.Clean(filepath.ToSlash(folder))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		edits, err := editsOf(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			line := 1 + bytes.Count(content[:e.from], []byte("\n"))
			all = append(all, &change{
				name:    fmt.Sprintf("%s:%d: %s: %s", relative, line, e.rule, strings.Join(strings.Fields(string(content[e.from:e.to])), " ")),
				file:    relative,
				content: slices.Concat(content[:e.from], []byte(e.with), content[e.to:]),
				tests:   []string{tests},
				timeout: sampleTimeout,
			})
		}
	}
	return all, nil
}

// editsOf returns the edits of a file by all rules. Some do not compile: a variable may be unused then.
func editsOf(content []byte) (all []edit, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	text := func(n ast.Node) string { return string(content[offset(n.Pos()):offset(n.End())]) }
	drop := func(s ast.Stmt) {
		if !strings.Contains(strings.ToLower(text(s)), "log") && !strings.HasPrefix(text(s), "panic(") {
			all = append(all, edit{rule: "dropped", from: offset(s.Pos()), to: offset(s.End())})
		}
	}
	statements := func(list []ast.Stmt) {
		for _, s := range list {
			switch s := s.(type) {
			case *ast.ExprStmt, *ast.IncDecStmt:
				drop(s)
			case *ast.AssignStmt:
				if s.Tok != token.DEFINE {
					drop(s)
				}
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			statements(n.List)
		case *ast.CaseClause:
			statements(n.Body)
		case *ast.CommClause:
			statements(n.Body)
		case *ast.IfStmt:
			all = append(all, edit{"negated", offset(n.Cond.Pos()), offset(n.Cond.End()), "!(" + text(n.Cond) + ")"})
		case *ast.ForStmt:
			n.Init, n.Cond, n.Post = nil, nil, nil // only the body is looked at
		case *ast.BinaryExpr:
			if to, ok := swapped[n.Op]; ok {
				from := offset(n.OpPos)
				all = append(all, edit{"to " + to.String(), from, from + len(n.Op.String()), to.String()})
			}
		}
		return true
	})
	return all, nil
}
