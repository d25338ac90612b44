package identity

import (
	"context"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Actions of a bulk request.
const (
	actionActivate = "ACTIVATE"
	actionDelete   = "DELETE"
)

// ChangeUsersInput is the body of a bulk request.
type ChangeUsersInput struct {
	Body struct {
		Action  string  `json:"action" enum:"DEACTIVATE,ACTIVATE,DELETE"`
		UserIDs []int64 `json:"userIds" minItems:"1" maxItems:"100" doc:"An id that is repeated counts once."`
	}
}

// ChangeUsersOutput has one outcome for each user.
type ChangeUsersOutput struct {
	Body struct {
		Action    string        `json:"action" enum:"DEACTIVATE,ACTIVATE,DELETE"`
		Succeeded []int64       `json:"succeeded" doc:"Users that are in the requested state, also those that were before."`
		Failed    []UserFailure `json:"failed"`
	}
}

// UserFailure is the failure of one user in a bulk request.
type UserFailure struct {
	UserID int64            `json:"userId"`
	Error  rest.ActionError `json:"error"`
}

// changeUsers changes users one after the other, in the order of the request. A failure does not undo earlier changes.
func (a *api) changeUsers(ctx context.Context, in *ChangeUsersInput) (*ChangeUsersOutput, error) {
	out, users := &ChangeUsersOutput{}, a.users(ctx)
	out.Body.Action, out.Body.Succeeded, out.Body.Failed = in.Body.Action, []int64{}, []UserFailure{}
	done := map[int64]bool{}
	for _, number := range in.Body.UserIDs {
		if done[number] {
			continue
		}
		done[number] = true
		if err := ctx.Err(); err != nil { // the caller has gone
			return nil, err
		}
		if err := users.act(ctx, in.Body.Action, number); err != nil {
			out.Body.Failed = append(out.Body.Failed, UserFailure{number, rest.ActionErrorOf(ctx, err)})
			continue
		}
		out.Body.Succeeded = append(out.Body.Succeeded, number)
	}
	return out, nil
}

// act performs an action on the user with a number.
func (p people) act(ctx context.Context, action string, number int64) error {
	if action == actionDelete {
		return p.deleteUser(ctx, number)
	}
	_, err := p.change(ctx, number, func(id string, d schema.Document) error {
		after := stateOf(d)
		after.active = action == actionActivate
		return p.guard(ctx, id, d, after)
	})
	return err
}
