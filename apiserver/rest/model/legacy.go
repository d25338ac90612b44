package model

import (
	"context"
	"net/http"
	"strconv"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/strictjson"
)

// deployPath begins the routes of the npm package cubejs-cli, whose requests and responses are those of
// its `deploy` command. It requires JSON in every response.
const deployPath = "/build/deploy"

func (a *api) deployFamily() rest.Family {
	fields := map[string]string{"transaction": "transaction of the start, as JSON.", "fileName": "Path from the root of the data model, without a slash at the beginning."}
	in := deployPath + "/{deploymentId}"
	return rest.Family{Tag: "cubejs-cli", Description: "The routes of cubejs-cli deploy, with a deploy token.", Routes: append([]rest.Route{
		rest.Handle(http.MethodPost, ExchangePath, "exchangeDeployToken", rest.NoPermission, "Check a deploy token", a.exchangeToken),
		rest.Handle(http.MethodGet, deployPath+"/deployments", "deployListDeployments", v1alpha1.PermissionSchemaRead, "List the deployments of the credential", a.deployListDeployments),
		rest.Handle(http.MethodGet, in+"/files", "deployFiles", v1alpha1.PermissionSchemaRead, "Get the hashes of the files", a.fileHashes).WithDocument(describeConflict),
		rest.Handle(http.MethodPost, in+"/start-upload", "deployStartUpload", v1alpha1.PermissionSchemaUpdate, "Start an upload", a.deployStartUpload),
		rest.Handle(http.MethodPost, in+"/set-env", "deploySetEnv", v1alpha1.PermissionSecretsManage, "Set environment variables with an upload", a.deploySetEnv),
		rest.Handle(http.MethodPost, in+"/upload-file", "deployUploadFile", v1alpha1.PermissionSchemaUpdate, "Upload a file", a.uploadFile).WithForm(fields).WithCachedDeployment(),
		rest.Handle(http.MethodPost, in+"/finish-upload", "deployFinishUpload", v1alpha1.PermissionSchemaUpdate, "Finish an upload", a.finishUpload).WithMaxBody(maxDocument),
	}, a.livePreviewRoutes()...)}
}

// DeployListedDeployment is a deployment that the credential is for.
type DeployListedDeployment struct {
	ID   int64  `json:"id" minimum:"1"`
	Name string `json:"name"`
}

// DeployListOutput has the deployments of the credential.
type DeployListOutput struct{ Body []DeployListedDeployment }

func (a *api) deployListDeployments(ctx context.Context, _ *struct{}) (*DeployListOutput, error) {
	s := rest.ScopeFrom(ctx)
	all, err := a.Catalog.Deployments(s.Namespace(), s.Principal, v1alpha1.PermissionSchemaRead)
	if err != nil {
		return nil, err
	}
	out := &DeployListOutput{Body: make([]DeployListedDeployment, len(all))}
	for i, d := range all {
		out.Body[i] = DeployListedDeployment{ID: catalog.NumberOf(d), Name: d.DisplayName()}
	}
	return out, nil
}

// DeployStartInput has no body.
type DeployStartInput struct {
	rest.InDeployment
	UploadQuery
}

func (a *api) deployStartUpload(ctx context.Context, in *DeployStartInput) (*StartUploadOutput, error) {
	return a.startUpload(ctx, &StartUploadInput{InDeployment: in.InDeployment, UploadQuery: in.UploadQuery})
}

// DeploySetEnvInput has the variables as JSON in a string.
type DeploySetEnvInput struct {
	rest.InDeployment
	Replace bool `query:"replaceEnv" doc:"true replaces all variables; false sets those that are absent, before the first upload only."`
	Body    struct {
		Variables string `json:"envVariables" maxLength:"1000000" secret:"true" doc:"A JSON object of names and values."`
	}
}

func (a *api) deploySetEnv(ctx context.Context, in *DeploySetEnvInput) (*rest.SuccessOutput, error) {
	values, err := variablesIn(in.Body.Variables)
	if err != nil {
		return nil, err
	}
	if !in.Replace {
		first, err := a.isFirstUpload(ctx)
		if err != nil {
			return nil, err
		}
		if !first {
			return rest.Success(), nil
		}
	}
	if err := a.SetVariables(ctx, values, in.Replace); err != nil {
		return nil, err
	}
	return rest.Success(), nil
}

// variablesIn returns the variables in a JSON object. Anything that is not clear is an error: with replaceEnv, null as no
// variables would remove all. Errors have names, and no values.
func variablesIn(text string) (map[string]string, error) {
	const allowed = "envVariables: %s; allowed: a JSON object of names and values, as a string"
	decoded, err := strictjson.Decode([]byte(text), strictjson.Options{})
	if err != nil {
		return nil, rest.BadRequest(allowed, err)
	}
	object, isObject := decoded.(map[string]any)
	if !isObject {
		return nil, rest.BadRequest(allowed, "it is not an object")
	}
	values := make(map[string]string, len(object))
	for name, value := range object {
		text, isText := value.(string)
		if !isText {
			return nil, rest.BadRequest(allowed, "the value of "+strconv.Quote(rest.Clip(name))+" is not a string")
		}
		values[name] = text
	}
	return values, nil
}

// isFirstUpload reports whether no upload to the deployment was finished yet.
func (a *api) isFirstUpload(ctx context.Context) (bool, error) {
	if a.Uploads == nil {
		return false, errNoDatabase
	}
	_, err := a.Uploads.Last(ctx, rest.ScopeFrom(ctx).Content())
	if isNotFound(err) {
		return true, nil
	}
	return false, err
}
