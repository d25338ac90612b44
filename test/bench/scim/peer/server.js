// A SCIM service built with scimmy and scimmy-routers that keeps its resources in memory, as in their
// documentation. It prints the port that it listens on. Express 4: the routers write to request.query,
// which is read-only in Express 5.
import {randomUUID} from "node:crypto";
import express from "express";
import SCIMMY from "scimmy";
import SCIMMYRouters from "scimmy-routers";

// serve declares a resource type; the value of one of its attributes is unique.
function serve(Resource, unique) {
    const resources = new Map(); // by id
    const names = new Map(); // id by name
    const nameOf = (resource) => resource[unique].toLowerCase();

    Resource.ingress((request, sent) => {
        const known = request.id && resources.get(request.id);
        if (request.id && !known) throw new SCIMMY.Types.Error(404, null, `Resource ${request.id} not found`);
        const holder = names.get(nameOf(sent));
        if (holder && holder !== known?.id) throw new SCIMMY.Types.Error(409, "uniqueness", `${unique} is taken`);
        const now = new Date().toISOString();
        const kept = {
            ...JSON.parse(JSON.stringify(sent)), id: known?.id ?? randomUUID(),
            meta: {created: known?.meta.created ?? now, lastModified: now},
        };
        if (known) names.delete(nameOf(known));
        names.set(nameOf(kept), kept.id);
        resources.set(kept.id, kept);
        return kept;
    });
    Resource.egress((request) => {
        if (!request.id) return request.filter ? request.filter.match([...resources.values()]) : [...resources.values()];
        const found = resources.get(request.id);
        if (!found) throw new SCIMMY.Types.Error(404, null, `Resource ${request.id} not found`);
        return found;
    });
    Resource.degress((request) => {
        const found = resources.get(request.id);
        if (!found) throw new SCIMMY.Types.Error(404, null, `Resource ${request.id} not found`);
        names.delete(nameOf(found));
        resources.delete(request.id);
    });
    SCIMMY.Resources.declare(Resource);
}

serve(SCIMMY.Resources.User, "userName");
serve(SCIMMY.Resources.Group, "displayName");
SCIMMY.Resources.User.extend(SCIMMY.Schemas.EnterpriseUser, false);

const app = express();
app.use("/scim/v2", new SCIMMYRouters({
    type: "bearer",
    handler: (request) => {
        if (request.header("Authorization") !== `Bearer ${process.env.PEER_TOKEN}`) throw new Error("not authorized");
        return "bench";
    },
}));
const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
