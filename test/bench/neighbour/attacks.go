package main

// attack is an attack and the work of the other tenant that it must not affect.
type attack struct {
	name, attacker, victim string
	program                program
}

// who carries out an attack.
const (
	anyone = "anyone"
	caller = "a tenant"
)

// attacks are all attacks: on the gateway, the API server and the controller.
var attacks = []attack{
	{"slow bodies, on the gateway", "anyone, and a tenant with its token", workQuery, slowDataBodies},
	{"WebSockets without a token", anyone, workQuery, silentWebSockets},
	{"idle TLS connections", anyone, workConnect, idleConnections},
	{"listings of large metadata", caller, workQuery, largeListings},
	{"SQL connections without login", anyone, workSQL, sqlWithoutLogin},
	{"invalid tokens", anyone, workQuery, invalidTokens},
	{"slow bodies of one key", caller, workList, slowBodies},
	{"made-up JWTs", anyone, workRobot, madeUpTokens},
	{"discovery and OpenAPI documents", anyone, workList, documents},
	{"SCIM filters over a large directory", caller, workDirector, filters},
	{"lists without end", caller, workList, endlessLists},
	{"Git push hooks", anyone, workList, pushHooks},
	{"a Git server with a million refs", caller, workChange, millionRefs},
	{"Git servers that hang", caller, workRemote, hangingServers},
	{"objects created and deleted", caller, workChange, createAndDelete},
}

// idleName is the program that burns processor time instead of an attack.
const idleName = "burn"

// programs are the programs of attackers by name.
var programs = func() map[string]program {
	all := map[string]program{idleName: burn}
	for _, a := range attacks {
		all[a.name] = a.program
	}
	return all
}()
