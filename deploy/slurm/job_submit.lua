-- Asks the helper `jostle slurm` on which node a job would do no harm, and requires
-- that node. Whatever goes wrong, the job goes through unchanged.
--
-- Install as job_submit.lua beside slurm.conf (JobSubmitPlugins=lua), or load it
-- from a job_submit.lua of your own and call jostle.submit(job_desc) there.
-- Needs LuaSocket for the Lua that Slurm was built with (Debian: lua-socket).

jostle = {
  socket = "/run/jostle/slurm.sock",
  seconds = 0.2, -- for the whole conversation
  pause = 5, -- seconds without asking after the helper was too slow
}

local longest_answer = 65536
local longest_name = 255
local longest_comment = 1000 -- Slurm refuses jobs with more than 1024 bytes
local quiet_until = 0

local loaded, clock, unix = pcall(function()
  local socket = require("socket")
  local stream = require("socket.unix")
  -- LuaSocket 2 has a function here, later versions a table.
  return socket.gettime, type(stream) == "table" and stream.stream or stream
end)

-- A number that was set. Slurm has markers for those that were not.
local function number(value)
  value = tonumber(value)
  if not value or value < 0 or value >= 4294967294 or value == 65534 or value == 65535 then
    return nil
  end
  return value
end

-- Text that needs no quoting in JSON; nil for any other.
local function plain(value, pattern)
  if type(value) ~= "string" or #value > 4096 then
    return nil
  end
  return value:match("^" .. pattern .. "$")
end

local name_pattern = "[%w%._%+%-]+"
local list_pattern = "[%w%._%-,%[%]]+"

-- The profile that a job names: `--comment jostle=PROFILE` or JOSTLE_PROFILE.
local function profile_of(job)
  local comment = job.comment
  if type(comment) == "string" then
    local name = comment:match("^jostle=(" .. name_pattern .. ")")
      or comment:match("[%s,;]jostle=(" .. name_pattern .. ")")
    if name then
      return #name <= longest_name and name or nil
    end
  end
  local environment = job.environment
  local name = environment and plain(environment["JOSTLE_PROFILE"], name_pattern)
  return name and #name <= longest_name and name or nil
end

local function given(value)
  return value ~= nil and value ~= ""
end

-- Why this job is not steered; nil if it may be. What is not the same on all nodes
-- is left to Slurm, and so is a job that does not want to start now.
local function fixed(job)
  local tasks, most_nodes = number(job.num_tasks) or 1, number(job.max_nodes) or 0
  local checks = {
    { given(job.req_nodes), "it names nodes" },
    { given(job.reservation), "it asks for a reservation" },
    { given(job.features), "it asks for features" },
    { given(job.licenses), "it asks for licences" },
    { given(job.gres) or given(job.tres_per_node), "it asks for generic resources" },
    { given(job.tres_per_job) or given(job.tres_per_task), "it asks for generic resources" },
    { given(job.tres_per_socket), "it asks for generic resources" },
    { (number(job.min_nodes) or 1) > 1, "it takes several nodes" },
    { tasks > 1 and most_nodes ~= 1, "it may take several nodes" },
    { number(job.het_job_offset) ~= nil, "it is heterogeneous" },
    { number(job.shared) == 0 or number(job.shared) == 2, "it has its node for itself" },
    { (number(job.immediate) or 0) > 0, "it starts at once or not at all" },
    { given(job.dependency), "it depends on another job, and is looked at later" },
    { number(job.priority) == 0, "it is held, and is looked at later" },
    { (number(job.begin_time) or 0) > os.time(), "it starts later, and is looked at then" },
  }
  for _, check in ipairs(checks) do
    if check[1] then
      return check[2]
    end
  end
  return nil
end

local function question(job, profile)
  local tasks, per_task = number(job.num_tasks) or 1, number(job.cpus_per_task) or 1
  local cpus = math.max(number(job.min_cpus) or 1, tasks * per_task)
  local memory = number(job.min_mem_per_node)
  local per_cpu = number(job.min_mem_per_cpu)
  if not memory and per_cpu then
    memory = per_cpu * cpus
  end
  local fields = {
    '"event":"submit"',
    '"profile":"' .. profile .. '"',
    string.format('"cpus":%d', cpus),
    string.format('"memory_mb":%d', memory or 0),
  }
  local partition = plain(job.partition, "[%w%._%-,]+")
  if partition then
    fields[#fields + 1] = '"partition":"' .. partition .. '"'
  end
  if given(job.exc_nodes) then
    local excluded = plain(job.exc_nodes, list_pattern)
    if not excluded then
      return nil
    end
    fields[#fields + 1] = '"exclude":"' .. excluded .. '"'
  end
  local reason = fixed(job)
  if reason then
    fields[#fields + 1] = '"fixed":"' .. reason .. '"'
  end
  return "{" .. table.concat(fields, ",") .. "}\n"
end

-- The line that answers `line`, or nil and why there is none.
local function ask(line)
  local deadline = clock() + jostle.seconds
  local connection = unix()
  local function give_up(why)
    connection:close()
    return nil, why
  end
  local function left()
    local seconds = deadline - clock()
    connection:settimeout(math.max(seconds, 0))
    return seconds > 0
  end
  if not left() then
    return give_up("timeout")
  end
  local ok, why = connection:connect(jostle.socket)
  if not ok then
    return give_up(why)
  end
  if not left() then
    return give_up("timeout")
  end
  ok, why = connection:send(line)
  if not ok then
    return give_up(why)
  end
  -- One by one from a buffer: a helper that babbles cannot fill the memory.
  local bytes = {}
  for i = 1, longest_answer do
    if not left() then
      return give_up("timeout")
    end
    local byte
    byte, why = connection:receive(1)
    if not byte then
      return give_up(why)
    end
    if byte == "\n" then
      connection:close()
      return table.concat(bytes)
    end
    bytes[i] = byte
  end
  return give_up("too long an answer")
end

local function steer(job)
  local profile = profile_of(job)
  if not profile then
    return
  end
  local line = question(job, profile)
  if not line then
    return
  end
  if clock() < quiet_until then
    return
  end
  local answer, why = ask(line)
  if not answer then
    -- An absent helper costs nothing, a slow one up to the limit.
    if why == "timeout" then
      quiet_until = clock() + jostle.pause
    end
    slurm.log_info("jostle: no answer (%s); the job goes through unchanged", tostring(why))
    return
  end
  local kind = answer:match('^{"answer":"(%l+)"')
  local comment = answer:match('"comment":"([^"\\%c]+)"')
  local node = answer:match('"node":"(' .. name_pattern .. ')"')
  local wait = tonumber(answer:match('"wait":(%d+)'))
  if kind ~= "steer" or not comment or #comment > 1024 or (wait and wait > 600) then
    slurm.log_info("jostle: not steered: %s", (answer:sub(1, 300):gsub("[^%w%p ]", "?")))
    return
  end
  local before = job.admin_comment
  comment = given(before) and (before .. " " .. comment) or comment
  if #comment > longest_comment then
    slurm.log_info("jostle: not steered: the admin comment is too long")
    return
  end
  if node then
    job.req_nodes = node
  elseif wait then
    job.begin_time = os.time() + wait
  end
  job.admin_comment = comment
end

function jostle.submit(job_desc)
  if not loaded then
    slurm.log_info("jostle: LuaSocket is missing (%s); jobs go through unchanged", tostring(clock))
    return
  end
  local ok, why = pcall(steer, job_desc)
  if not ok then
    pcall(slurm.log_info, "jostle: %s; the job goes through unchanged", tostring(why))
  end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  jostle.submit(job_desc)
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
