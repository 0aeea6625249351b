-- Single sends of 200 bytes by the native API.
wrk.method = "POST"
wrk.body = '{"messages":[{"body":"' .. string.rep("x", 200) .. '"}]}'
wrk.headers["Content-Type"] = "application/json"
