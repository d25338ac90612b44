-- The health of an object of platform.quoin.dev, from its conditions Ready and Stalled (kstatus).
-- A condition describes the current spec if its observedGeneration is metadata.generation.
local status = obj.status or {}
local ready = nil
local stalled = false
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    ready = condition
  elseif condition.type == "Stalled" and condition.status == "True" then
    stalled = true
  end
end
if ready == nil or ready.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the controller to observe the spec" }
end
local message = ready.reason .. ": " .. ready.message
if stalled then
  return { status = "Degraded", message = message }
end
if ready.status ~= "True" or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = message }
end
if ready.reason == "Suspended" then
  return { status = "Suspended", message = message }
end
return { status = "Healthy", message = message }
