package scimtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// strictClient checks responses as clients do that are written strictly to RFC 7643 and RFC 7644: it rejects
// every attribute that /Schemas does not declare and every value of another type than declared. All responses
// of all tests pass it.
type strictClient struct {
	once    sync.Once
	err     error
	schemas map[string]*declared
}

const schemaURN = "urn:ietf:params:scim:schemas:core:2.0:Schema"

// declared is a schema, an attribute or a sub-attribute as /Schemas declares it.
type declared struct {
	ID            string      `json:"id"`
	Name          string      `json:"name"`
	Type          string      `json:"type"`
	MultiValued   bool        `json:"multiValued"`
	Required      bool        `json:"required"`
	Returned      string      `json:"returned"`
	Attributes    []*declared `json:"attributes"`
	SubAttributes []*declared `json:"subAttributes"`
}

// messages are the members of the messages of RFC 7644 and RFC 9865.
var messages = map[string][]string{
	ListURN:  {"schemas", "totalResults", "startIndex", "itemsPerPage", "nextCursor", "previousCursor", "Resources"},
	ErrorURN: {"schemas", "status", "scimType", "detail"},
	"urn:ietf:params:scim:api:messages:2.0:BulkResponse": {"schemas", "Operations"},
}

// metaAttributes are the sub-attributes of the common attribute meta.
var metaAttributes = []*declared{
	{Name: "resourceType", Type: "string", Required: true}, {Name: "location", Type: "reference", Required: true},
	{Name: "created", Type: "dateTime"}, {Name: "lastModified", Type: "dateTime"}, {Name: "version", Type: "string"},
}

// load reads /Schemas with the permissions of an administrator.
func (c *strictClient) load(ctx context.Context, a *Account) error {
	c.once.Do(func() {
		got, err := apiclient.Request{Method: "GET", URL: a.BaseURL() + "/Schemas", Authorization: "Bearer " + a.RFC}.Send(context.WithoutCancel(ctx), Clients[0])
		if err != nil {
			c.err = err
			return
		}
		var list struct{ Resources []*declared }
		if c.err = json.Unmarshal(got.Body, &list); c.err != nil || len(list.Resources) == 0 {
			c.err = fmt.Errorf("/Schemas: %w: %s", errors.Join(c.err, errors.New("no schemas")), Truncate(got.Body))
			return
		}
		c.schemas = map[string]*declared{}
		for _, s := range list.Resources {
			c.schemas[s.ID] = s
		}
		// Schemas are recursive, but RFC 7643 section 8.7.2 describes only one level of sub-attributes.
		if schema := c.schemas[schemaURN]; schema != nil {
			attribute := schema.Attributes[slices.IndexFunc(schema.Attributes, func(d *declared) bool { return d.Name == "attributes" })]
			nested := slices.IndexFunc(attribute.SubAttributes, func(d *declared) bool { return d.Name == "subAttributes" })
			attribute.SubAttributes[nested].SubAttributes = attribute.SubAttributes
		}
	})
	return c.err
}

// check returns an error for a response that a strict client rejects. query is the query of the request.
func (c *strictClient) check(raw []byte, query string) error {
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		values = nil // the test sends an invalid query
	}
	partial := values.Has("attributes") || values.Has("excludedAttributes")
	urns := texts(body["schemas"])
	if len(urns) != 1 || messages[urns[0]] == nil {
		return c.resource("", body, partial)
	}
	for name := range body {
		if !slices.Contains(messages[urns[0]], name) {
			return fmt.Errorf("%s is not declared by %s", name, urns[0])
		}
	}
	resources, _ := body["Resources"].([]any)
	for i, item := range resources {
		resource, _ := item.(map[string]any)
		if err := c.resource(fmt.Sprintf("Resources[%d].", i), resource, true); err != nil {
			return err
		}
	}
	return nil
}

func texts(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// resource checks a resource. partial omits the check of required attributes.
func (c *strictClient) resource(path string, r map[string]any, partial bool) error {
	urns := texts(r["schemas"])
	if len(urns) == 0 {
		return fmt.Errorf("%sschemas is missing", path)
	}
	allowed := []*declared{{Name: "schemas", Type: "reference", MultiValued: true}, {Name: "id", Type: "string"}, {Name: "externalId", Type: "string"},
		{Name: "meta", Type: "complex", SubAttributes: metaAttributes}}
	for i, urn := range urns {
		s := c.schemas[urn]
		switch {
		case s == nil:
			return fmt.Errorf("%sschemas: %s is not in /Schemas", path, urn)
		case i == 0:
			allowed = append(allowed, s.Attributes...)
		default:
			allowed = append(allowed, &declared{Name: urn, Type: "complex", SubAttributes: s.Attributes})
		}
	}
	return object(path, allowed, r, partial)
}

func object(path string, allowed []*declared, values map[string]any, partial bool) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(allowed, func(d *declared) bool { return d.Name == name })
		if i < 0 {
			return fmt.Errorf("%s%s is not declared", path, name)
		}
		if err := allowed[i].check(path+name, values[name], partial); err != nil {
			return err
		}
	}
	for _, d := range allowed {
		if _, has := values[d.Name]; d.Required && !has && !partial {
			return fmt.Errorf("%s%s is required and missing", path, d.Name)
		}
	}
	return nil
}

// check checks the value of an attribute.
func (d *declared) check(path string, value any, partial bool) error {
	if d.Returned == "never" || d.Returned == "request" && !partial {
		return fmt.Errorf("%s must not be returned", path)
	}
	list, many := value.([]any)
	if many != d.MultiValued {
		return fmt.Errorf("%s: multiValued is %v: %s", path, d.MultiValued, FormatJSON(value))
	}
	if !many {
		return d.checkOne(path, value, partial)
	}
	for i, item := range list {
		if err := d.checkOne(fmt.Sprintf("%s[%d]", path, i), item, partial); err != nil {
			return err
		}
	}
	return nil
}

func (d *declared) checkOne(path string, value any, partial bool) error {
	ok := false
	switch value := value.(type) {
	case bool:
		ok = d.Type == "boolean"
	case float64:
		ok = d.Type == "decimal" || d.Type == "integer" && value == math.Trunc(value)
	case string:
		switch d.Type {
		case "string", "binary":
			ok = true
		case "dateTime":
			_, err := time.Parse(time.RFC3339Nano, value)
			ok = err == nil
		case "reference":
			_, err := url.Parse(value)
			ok = err == nil && value != "" && !strings.ContainsAny(value, " \n")
		}
	case map[string]any:
		if d.Type == "complex" && len(value) > 0 {
			return object(path+".", d.SubAttributes, value, partial)
		}
	}
	if !ok {
		return fmt.Errorf("%s is not of type %s: %s", path, d.Type, FormatJSON(value))
	}
	return nil
}
