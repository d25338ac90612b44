// The configuration of a project without cube.py, cube.ts or cube.js, written by quoin model-fetch: that of the image,
// if it has one, and the groups of the caller, which data API tokens contain, for access policies.
'use strict';

const fs = require('fs');

const folder = '/cube/conf';

for (const name of ['cube.py', 'cube.ts']) {
  if (fs.existsSync(`${folder}/${name}`)) {
    throw new Error(`The image has ${folder}/${name}, which is not used for models in Git: add ${name} to the project in Git`);
  }
}

// Servers before 1.5 have no option contextToGroups, and reject unknown ones.
function hasGroups() {
  try {
    const [major, minor] = require('@cubejs-backend/server-core/package.json').version.split('.').map(Number);
    return major > 1 || (major === 1 && minor >= 5);
  } catch {
    return false;
  }
}

module.exports = {
  ...(hasGroups() && { contextToGroups: ({ securityContext }) => securityContext?.cubeCloud?.groups ?? [] }),
  ...(fs.existsSync(`${folder}/cube.js`) && require(`${folder}/cube.js`)),
};
