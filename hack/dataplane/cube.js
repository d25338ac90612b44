// The settings of the data plane are variables of its container; see internal/engine.
module.exports = {};
