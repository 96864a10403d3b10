package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// restricted is a client that may only run CL.THROTTLE with keys of the pattern app:*. Either a certificate or a password names
// its user.
type restricted struct {
	t                *testing.T
	config           *tls.Config // nil without TLS
	redis, web, rpc  string      // addresses of the ports
	user, password   string      // without a password, the certificate of the user is used
	tried, permitted int
}

// check tries all commands of admin's server, all endpoints of its HTTP server, and the services of its gRPC server.
func (r *restricted) check(admin *redis.Client) {
	r.t.Helper()
	r.checkCommands(admin)
	r.checkEndpoints()
	r.checkServices(admin)
}

// checkCommands tries all commands and subcommands.
func (r *restricted) checkCommands(admin *redis.Client) {
	r.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.redis, TLSConfig: r.config, Username: r.user, Password: r.password, Protocol: 2, MaxRetries: -1, PoolSize: 1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	commands, err := admin.Do(r.t.Context(), "COMMAND").Slice()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range commands {
		r.checkCommand(client, c.([]any))
	}
	if r.tried < 150 || r.permitted != 5 { // AUTH, HELLO, QUIT, RESET and CL.THROTTLE
		r.t.Errorf("%d commands were tried, %d are permitted, want at least 150 and 5", r.tried, r.permitted)
	}
	for key, want := range map[string]string{"app:1": "", "other": "NOPERM"} {
		if err := client.Do(r.t.Context(), "CL.THROTTLE", key, 5, 5, 60).Err(); want == "" && err != nil || want != "" && !redis.HasErrorPrefix(err, want) {
			r.t.Errorf("CL.THROTTLE %s: %v, want an error that begins with %q", key, err, want)
		}
	}
	if err := client.Do(r.t.Context(), "CL.THROTTLE", "app:1", 5, 5, 60, -1).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		r.t.Errorf("a refund: %v, want NOPERM", err)
	}
}

// checkCommand tries a command with a valid number of arguments, and its subcommands. The row is that of the reply to COMMAND.
func (r *restricted) checkCommand(client *redis.Client, row []any) {
	r.t.Helper()
	name, arity, subcommands := row[0].(string), int(row[1].(int64)), row[9].([]any)
	for _, sub := range subcommands {
		r.checkCommand(client, sub.([]any))
	}
	switch name {
	case "auth", "hello", "quit", "reset", "cl.throttle":
		r.permitted++
		return
	}
	if len(subcommands) > 0 {
		return // cannot be called without a subcommand
	}
	var call []any
	for _, word := range strings.Split(name, "|") {
		call = append(call, word)
	}
	for len(call) < max(arity, -arity) {
		call = append(call, "app:1")
	}
	r.tried++
	if err := client.Do(r.t.Context(), call...).Err(); !redis.HasErrorPrefix(err, "NOPERM") && (name != "exec" || !redis.HasErrorPrefix(err, "EXECABORT")) {
		r.t.Errorf("%v: %v, want NOPERM", call, err)
	}
}

// harmless are the endpoints that show nothing of the state.
var harmless = map[string]bool{"/healthz": true, "/readyz": true, "/openapi.json": true}

// endpointBodies are valid bodies of the requests to endpoints.
var endpointBodies = map[string]string{
	"/v1/check":       `{"domain":"shop","attributes":{"path":"/login","ip":"192.0.2.7"}}`,
	"/v1/report":      `{"domain":"shop","outcome":"status=401","attributes":{"path":"/login","ip":"192.0.2.7"}}`,
	"/v1/window":      `{"key":"app:1","limit":5,"period":60}`,
	"/v1/throttle":    `{"key":"other","max_burst":5,"count_per_period":10,"period":60}`,
	"/v1/check/batch": `{"checks":[{"domain":"shop","attributes":{"path":"/login","ip":"192.0.2.7"}}]}`,
}

// checkEndpoints tries all endpoints in the OpenAPI document of the server.
func (r *restricted) checkEndpoints() {
	r.t.Helper()
	var document struct {
		Paths map[string]map[string]any
	}
	if _, text := r.request(http.MethodGet, "/openapi.json", ""); json.Unmarshal([]byte(text), &document) != nil || len(document.Paths) < 8 {
		r.t.Fatalf("the OpenAPI document has %d endpoints: %s", len(document.Paths), text)
	}
	for path, methods := range document.Paths {
		for method := range methods {
			code, text := r.request(strings.ToUpper(method), path, endpointBodies[path])
			if path == "/v1/check/batch" && strings.Contains(text, "no permissions") {
				code = http.StatusForbidden // of the only check in the batch
			}
			if want := wantedCode(path); code != want {
				r.t.Errorf("%s %s: %d %s, want %d", method, path, code, text, want)
			}
		}
	}
	if code, text := r.request(http.MethodPost, "/v1/throttle", strings.Replace(endpointBodies["/v1/throttle"], "other", "app:1", 1)); code != http.StatusOK {
		r.t.Errorf("/v1/throttle with a key of the user: %d %s, want 200", code, text)
	}
}

// wantedCode returns the code with which an endpoint must answer the requests in endpointBodies.
func wantedCode(path string) int {
	switch {
	case harmless[path]:
		return http.StatusOK
	case path == "/check/nginx":
		return http.StatusUnauthorized // gateways treat 403 as the refusal of a client
	}
	return http.StatusForbidden
}

// request sends a request to the HTTP server.
func (r *restricted) request(method, path, body string) (code int, text string) {
	r.t.Helper()
	scheme := "http"
	if r.config != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, scheme+"://"+r.web+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if r.password != "" {
		req.SetBasicAuth(r.user, r.password)
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: r.config, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(reply)
}

// checkServices tries the methods of the services of Envoy, which admit the user only after it gets the permission for them.
func (r *restricted) checkServices(admin *redis.Client) {
	r.t.Helper()
	creds := insecure.NewCredentials()
	if r.config != nil {
		creds = credentials.NewTLS(r.config)
	}
	conn, err := grpc.NewClient(r.rpc, grpc.WithTransportCredentials(creds))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := r.t.Context()
	if r.password != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", fmt.Sprint("Bearer ", r.user, ":", r.password))
	}
	r.callServices(ctx, conn, codes.PermissionDenied)
	if err := admin.Do(ctx, "ACL", "SETUSER", r.user, "+cl.check", "domain:shop").Err(); err != nil {
		r.t.Fatal(err)
	}
	r.callServices(ctx, conn, codes.OK)
}

// callServices calls the methods, whose replies must have a code.
func (r *restricted) callServices(ctx context.Context, conn *grpc.ClientConn, want codes.Code) {
	r.t.Helper()
	_, limit := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, rateLimitRequest("192.0.2.7"))
	_, check := auth.NewAuthorizationClient(conn).Check(ctx, authorizationRequest("192.0.2.7"))
	for name, err := range map[string]error{"ShouldRateLimit": limit, "Check": check} {
		if status.Code(err) != want {
			r.t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestOneCommand_Certificate checks that a certificate gives the permissions of its user, and no others, on all ports with TLS.
func TestOneCommand_Certificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, file, edgeRules)
	s := startSecured(t, "yes", "--tls-auth-clients-user", "CN", "--rules", file)
	s.wants("+OK\r\n", "ACL SETUSER alice on ~app:* +cl.throttle")
	r := &restricted{t: t, config: s.site.User("alice"), redis: s.redis, web: s.http, rpc: s.grpc, user: "alice"}
	r.check(s.client(nil, s.addr))
}

// TestOneCommand_Sidecar checks that a sidecar restricts its users on all of its ports, also if it logs in to the upstream as a
// user without restrictions.
func TestOneCommand_Sidecar(t *testing.T) {
	dir := t.TempDir()
	file, users, web, rpc := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "users.acl"), freeAddr(t), freeAddr(t)
	writeFile(t, file, edgeRules)
	writeFile(t, users, "user app on >pw ~app:* +cl.throttle\n")
	up := newServer(t, "--rules", file)
	side := newSidecarOf(t, []*process{up}, "--aclfile", users, "--http-port", portOf(web), "--grpc-port", portOf(rpc))
	side.askUntil("rules_version:1", "INFO", "rules")
	r := &restricted{t: t, redis: side.addr, web: web, rpc: rpc, user: "app", password: "pw"}
	r.check(side.as("", ""))
}
