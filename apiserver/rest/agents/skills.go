package agents

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

// ListSkillsInput selects the files, and the page of the list.
type ListSkillsInput struct {
	rest.InDeployment
	rest.CursorPage
	Space      rest.Optional[string] `query:"space" maxLength:"255" doc:"Only skills of this space; those of all spaces when absent."`
	BranchName rest.Optional[string] `query:"branchName" maxLength:"244" doc:"The branch, whose newest commit is read; when absent, the commit that production serves."`
}

// AgentSkill is a skill, as documented. Its instructions are not shown.
type AgentSkill struct {
	Name        string `json:"name" doc:"Users start the skill with a slash and this name."`
	Title       string `json:"title"`
	Description string `json:"description"`
}

func (a *api) listSkills(ctx context.Context, in *ListSkillsInput) (*rest.List[AgentSkill], error) {
	s := rest.ScopeFrom(ctx)
	var files *agentfiles.Read
	var err error
	if branch := in.BranchName.Value; branch != "" {
		files, err = a.Files.OfBranch(ctx, s.Deployment, s.Content(), branch)
	} else {
		files, err = a.Files.Served(ctx, s.Deployment, s.Content())
	}
	shown := []AgentSkill{}
	if errors.Is(err, agentfiles.ErrNotServed) {
		return rest.PaginateByCursor(ctx, in.CursorPage, shown, nameOfSkill)
	}
	if err != nil {
		return nil, err
	}
	space := in.Space.Value
	if space != "" && !files.HasSpace(space) {
		return nil, rest.NotFound("space: %q does not exist in the files of the agents", rest.Clip(space))
	}
	for _, skill := range files.Skills {
		if space == "" || skill.Space == space {
			shown = append(shown, AgentSkill{skill.Name, skill.Title, skill.Description})
		}
	}
	slices.SortFunc(shown, func(x, y AgentSkill) int { return cmp.Compare(x.Name, y.Name) })
	return rest.PaginateByCursor(ctx, in.CursorPage, shown, nameOfSkill)
}

func nameOfSkill(s AgentSkill) string { return s.Name }
