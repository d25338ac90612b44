package project

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// parser collects what files configure.
type parser struct {
	folder  string
	project *Project
	spaces  map[string]bool
	errors  int
}

// Parse reads the files of a folder. Others, and those that IsRead excludes, are ignored. Files may have any order.
func Parse(folder string, files []File) *Project {
	p := &parser{folder: folder, project: &Project{}, spaces: map[string]bool{Auto: true}}
	files = p.admit(files)
	p.project.HasFiles = len(files) > 0
	p.config(files)
	for _, f := range files {
		switch kindOf(p.relative(f.Path)) {
		case ruleFile, skillFile, queryFile:
			p.markdown(f)
		case questionFile:
			p.questions(f)
		}
	}
	p.unique()
	p.checkGroundTruth()
	slices.SortStableFunc(p.project.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return p.project
}

// relative returns a path from the folder of the files.
func (p *parser) relative(name string) string {
	if p.folder == "" {
		return name
	}
	rest, ok := strings.CutPrefix(name, p.folder+"/")
	if !ok {
		return ""
	}
	return rest
}

// admit returns the files that are read and within the limits, by path.
func (p *parser) admit(all []File) []File {
	var files []File
	for _, f := range all {
		if IsRead(p.relative(f.Path)) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	var total int64
	var out []File
	for _, f := range files {
		switch {
		case strings.Count(p.relative(f.Path), "/") >= MaxFolders:
			p.problem(f.Path, 0, "", "it is in %d folders; allowed: %d", strings.Count(p.relative(f.Path), "/"), MaxFolders-1)
		case len(out) == MaxFiles:
			p.problem(f.Path, 0, "", "there are more than %d files: this one and those after it are not read", MaxFiles)
			return out
		case f.Size > MaxFileBytes || len(f.Text) > MaxFileBytes:
			p.problem(f.Path, 0, "", "it has %d bytes; allowed: %d", max(f.Size, int64(len(f.Text))), MaxFileBytes)
		case total+max(f.Size, int64(len(f.Text))) > MaxBytes:
			p.problem(f.Path, 0, "", "all files have more than %d bytes: this one and those after it are not read", MaxBytes)
			return out
		case !utf8.Valid(f.Text):
			p.problem(f.Path, 0, "", "it is not UTF-8 text")
		default:
			total += max(f.Size, int64(len(f.Text)))
			out = append(out, f)
		}
	}
	return out
}

// problem reports an error.
func (p *parser) problem(file string, line int, field, format string, args ...any) {
	p.errors++
	p.add(Problem{Place: Place{file, line}, Field: field, Message: fmt.Sprintf(format, args...)})
}

// warn reports a warning.
func (p *parser) warn(file string, line int, field, format string, args ...any) {
	p.add(Problem{Place: Place{file, line}, Field: field, Message: fmt.Sprintf(format, args...), Warning: true})
}

func (p *parser) add(problem Problem) {
	if len(p.project.Problems) < MaxProblems {
		p.project.Problems = append(p.project.Problems, problem)
	}
}

// nameOf returns the name of what a file has: its own without the extension.
func nameOf(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

// unique removes what has the name of something before it, and what is beyond the limits.
func (p *parser) unique() {
	q := p.project
	inSpace := func(space, name string) string { return space + "/" + name }
	q.Rules = distinct(p, "rule", q.Rules, func(r Rule) (string, string, Place) { return inSpace(r.Space, r.Name), r.Name, r.Place })
	q.Skills = distinct(p, "skill", q.Skills, func(s Skill) (string, string, Place) { return s.Name, s.Name, s.Place })
	q.Queries = distinct(p, "certified query", q.Queries, func(c Query) (string, string, Place) { return inSpace(c.Space, c.Name), c.Name, c.Place })
	q.Questions = distinct(p, "question", q.Questions, func(x Question) (string, string, Place) { return inSpace(x.Space, x.Name), x.Name, x.Place })
}

// distinct returns the items whose key is that of no item before; of returns the key, the name and the place of an item.
func distinct[T any](p *parser, what string, items []T, of func(T) (key, name string, at Place)) []T {
	seen := make(map[string]Place, len(items))
	out := items[:0]
	for _, item := range items {
		key, name, at := of(item)
		if first, found := seen[key]; found {
			p.problem(at.Path, at.Line, "name", "%q is the name of the %s at %s; allowed: names that no other %s has", clip(name), what, first, what)
			continue
		}
		if len(out) == MaxItems {
			p.problem(at.Path, at.Line, "", "there are more than %d of this kind (%s): this one and those after it are not read", MaxItems, what)
			break
		}
		seen[key] = at
		out = append(out, item)
	}
	return slices.Clip(out)
}
