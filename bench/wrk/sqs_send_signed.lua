-- Sends by the SQS API in JSON that were signed in advance. The argument is a file with a line for each: the headers
-- `Authorization` and `X-Amz-Date` and the body, with tabs between them.
local requests, next_one = {}, 0

function init(args)
    local headers = { ["Content-Type"] = "application/x-amz-json-1.0", ["X-Amz-Target"] = "AmazonSQS.SendMessage" }
    for line in io.lines(args[1]) do
        local body
        headers["Authorization"], headers["X-Amz-Date"], body = string.match(line, "^([^\t]*)\t([^\t]*)\t(.*)$")
        table.insert(requests, wrk.format("POST", "/", headers, body))
    end
end

function request()
    next_one = next_one % #requests + 1
    return requests[next_one]
end
