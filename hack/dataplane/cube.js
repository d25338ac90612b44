// Environment variables of the container configure the data plane; see internal/engine.
module.exports = {};
