package session_test

// step is a command of the session, after a sentence about it.
type step struct {
	about   string
	command string
	// code is the exit code. until is awaited after the command.
	code  int
	until *until
}

// until is a command that prints a text when the cluster has the state for the next step.
type until struct{ command, prints string }

// started waits until the channel latest counts the deployments that run its version.
var started = &until{`kubectl quoin status | awk '$1 == "latest" {print $3}'`, "1.2.3"}

// serves waits until the deployment analytics runs a version and is ready.
func serves(version string) *until {
	return &until{"kubectl quoin get analytics -n demo --wait --timeout 60s", "Succeeded: Production runs " + version}
}

// steps are the commands. Each command of the plugin is one of them; TestEveryCommand checks it.
var steps = []step{
	{about: "The installation", command: "kubectl quoin status"},
	{command: "kubectl quoin check --dns=false"},
	{about: "A new version", command: "bin/localcluster push cube-store v1.2.4"},
	{
		command: "bin/localcluster push cube v1.2.4",
		until:   &until{`kubectl quoin versions latest | awk '$2 == "1.2.4" {print $5, $6, $7}'; kubectl wait qdep --all -n demo --for=condition=Ready --timeout=60s >/dev/null`, "3 0 3"},
	},
	{command: "kubectl quoin get -n demo"},
	{command: "kubectl quoin get analytics -n demo"},
	{command: "kubectl quoin versions latest"},
	{about: "A version whose image cannot be pulled", command: `kubectl patch relch latest --type=merge -p '{"spec":{"policy":{"preReleases":true}}}'`},
	{command: "bin/localcluster push cube-store v1.2.5-broken"},
	{
		command: "bin/localcluster push cube v1.2.5-broken",
		until:   &until{"kubectl quoin why analytics -n demo || true", "up to date and ready (container cube: ImagePullBackOff)"},
	},
	{command: "kubectl quoin get analytics -n demo"},
	{command: "kubectl quoin why analytics -n demo", code: 3},
	{about: "The version of a deployment", command: "kubectl quoin pin analytics 9.9.9 -n demo", code: 1},
	{command: "kubectl quoin pin analytics 1.2.4 -n demo", until: serves("1.2.4")},
	{command: "kubectl quoin retry analytics -n demo"},
	{command: "kubectl quoin rollback analytics -n demo", until: serves("1.2.3")},
	{command: "kubectl quoin hold analytics -n demo"},
	{command: "kubectl quoin follow analytics -n demo --dry-run"},
	{command: "kubectl quoin promote 1.2.4 --channel release --dry-run"},
	{about: "Users, keys, and the APIs", command: "kubectl apply -f config/samples/more/scimuser.yaml", until: &until{"kubectl quoin users -n demo", "Succeeded"}},
	{command: "kubectl quoin users -n demo"},
	{command: "kubectl quoin keys create ci -n demo --permission DeploymentRead"},
	{command: "kubectl quoin token analytics -n demo"},
	{command: "kubectl quoin curl /api/v1/regions -n demo"},
	{command: "kubectl quoin psql analytics -n demo"},
	{about: "Content as objects", command: "kubectl apply -f config/samples/more/folder.yaml -f config/samples/more/workbook.yaml", until: &until{"kubectl get workbooks.platform.quoin.dev -n demo", "Succeeded"}},
	{command: "kubectl quoin export workbook sales -n demo --deployment analytics"},
	{command: "kubectl quoin audit -n demo --limit 3"},
	{about: "A support archive", command: "kubectl quoin bundle -n demo --logs=false --file quoin.tar.gz"},
	{command: "tar -tzf quoin.tar.gz"},
}
