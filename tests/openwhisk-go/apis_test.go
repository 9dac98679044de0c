package openwhiskgo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

// What `wsk api create` sends; its options name the key's uuid.
func api(base, path, method, action, response string) *whisk.ApiCreateRequest {
	return &whisk.ApiCreateRequest{ApiDoc: &whisk.Api{
		Namespace: "_", ApiName: "the " + base, GatewayBasePath: "/" + base, GatewayRelPath: path, GatewayMethod: method,
		Id: fmt.Sprintf("API:_:/%s", base),
		Action: &whisk.ApiAction{
			Name: action, Namespace: "_", BackendMethod: method, Auth: guest,
			BackendUrl: fmt.Sprintf("%s/api/v1/web/guest/default/%s.%s", serverURL, action, response),
		},
	}}
}

func gateway() whisk.ApiOptions {
	return whisk.ApiOptions{SpaceGuid: strings.Split(guest, ":")[0], AccessToken: "DUMMY TOKEN"}
}

func TestApis(t *testing.T) {
	wsk := client(t)
	web := javascript("served", "function main({ name, __ow_method }) { return { said: `${__ow_method} ${name}` } }")
	web.Annotations = pairs("web-export", true)
	_, _, err := wsk.Actions.Insert(web, true)
	ok(t, err)

	options := whisk.ApiCreateRequestOptions(gateway())
	options.ResponseType = "json"
	made, _, err := wsk.Apis.Insert(api("store", "/greet", "GET", "served", "json"), &options, true)
	ok(t, err)
	equal(t, "activated", made.Activated, true)
	matches(t, "the URL", made.BaseUrl, `^http://127\.0\.0\.1:\d+/.*/store$`)
	equal(t, "the base path", made.Swagger.BasePath, "/store")
	equal(t, "the title", made.Swagger.Info.Title, "the store")
	operation := made.Swagger.Paths["/greet"].Get
	equal(t, "the action", operation.XOpenWhisk.ActionName, "served")
	equal(t, "the URL behind it", operation.XOpenWhisk.ApiUrl, serverURL+"/api/v1/web/guest/default/served.json")

	second := api("store", "/greet/{name}", "POST", "served", "json")
	second.ApiDoc.PathParameters = []whisk.ApiParameter{{Name: "name", In: "path", Required: true, Type: "string"}}
	second.ApiDoc.Action.BackendUrl += ""
	made, _, err = wsk.Apis.Insert(second, &options, true)
	ok(t, err)
	equal(t, "paths", len(made.Swagger.Paths), 2)

	status, body := raw(t, "GET", made.BaseUrl+"/greet?name=Ada", "")
	equal(t, "the status", status, 200)
	same(t, "the answer", jsonOf(t, body), `{"said":"get Ada"}`)
	status, body = raw(t, "POST", made.BaseUrl+"/greet/Eve", "{}")
	equal(t, "the status", status, 200)

	list := whisk.ApiListRequestOptions{ApiOptions: gateway(), Limit: 30}
	apis, _, err := wsk.Apis.List(&list)
	ok(t, err)
	equal(t, "APIs", len(apis.Apis), 1)
	equal(t, "the URL", apis.Apis[0].ApiValue.BaseUrl, made.BaseUrl)
	equal(t, "the operations", len(apis.Apis[0].ApiValue.Swagger.Paths), 2)

	get := whisk.ApiGetRequestOptions(gateway())
	get.ApiBasePath = "/store"
	got, _, err := wsk.Apis.Get(&whisk.ApiGetRequest{}, &get)
	ok(t, err)
	equal(t, "APIs", len(got.Apis), 1)
	equal(t, "the verb", got.Apis[0].ApiValue.Swagger.Paths["/greet/{name}"].Post.XOpenWhisk.ActionName, "served")
	// By name, as `wsk api get "the store"` asks.
	get.ApiBasePath = "the store"
	got, _, err = wsk.Apis.Get(&whisk.ApiGetRequest{}, &get)
	ok(t, err)
	equal(t, "APIs of that name", len(got.Apis), 1)
	get.ApiBasePath = "/nothing"
	got, _, err = wsk.Apis.Get(&whisk.ApiGetRequest{}, &get)
	ok(t, err)
	equal(t, "APIs that are not there", len(got.Apis), 0)

	gone := whisk.ApiDeleteRequestOptions(gateway())
	gone.ApiBasePath, gone.ApiRelPath, gone.ApiVerb = "/store", "/greet", "GET"
	_, err = wsk.Apis.Delete(&whisk.ApiDeleteRequest{}, &gone)
	ok(t, err)
	status, _ = raw(t, "GET", made.BaseUrl+"/greet?name=Ada", "")
	equal(t, "the status", status, 404)
	gone.ApiRelPath, gone.ApiVerb = "", ""
	_, err = wsk.Apis.Delete(&whisk.ApiDeleteRequest{}, &gone)
	ok(t, err)
	apis, _, err = wsk.Apis.List(&list)
	ok(t, err)
	equal(t, "APIs", len(apis.Apis), 0)
	answer, err := wsk.Apis.Delete(&whisk.ApiDeleteRequest{}, &gone)
	if err == nil {
		t.Fatal("an API that is not there was deleted")
	}
	equal(t, "the status", answer.StatusCode/100, 4)
}

func TestApisFromSwagger(t *testing.T) {
	wsk := client(t)
	web := javascript("described", "function main() { return { body: 'described' } }")
	web.Annotations = pairs("web-export", true)
	_, _, err := wsk.Actions.Insert(web, true)
	ok(t, err)
	document := fmt.Sprintf(`{"swagger":"2.0","basePath":"/written","info":{"title":"written","version":"1.0"},"paths":{"/page":{"get":{
		"operationId":"page","responses":{"default":{"description":"a page"}},
		"x-openwhisk":{"namespace":"guest","package":"default","action":"described","url":"%s/api/v1/web/guest/default/described.http"}}}}}`, serverURL)
	options := whisk.ApiCreateRequestOptions(gateway())
	options.ResponseType = "http"
	made, _, err := wsk.Apis.Insert(&whisk.ApiCreateRequest{ApiDoc: &whisk.Api{Namespace: "_", Swagger: document}}, &options, true)
	ok(t, err)
	status, body := raw(t, "GET", made.BaseUrl+"/page", "")
	equal(t, "the status", status, 200)
	equal(t, "the page", body, "described")
	gone := whisk.ApiDeleteRequestOptions(gateway())
	gone.ApiBasePath = "/written"
	_, err = wsk.Apis.Delete(&whisk.ApiDeleteRequest{}, &gone)
	ok(t, err)
}
