import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/** Gets a video from the store, makes it 640x480 with ffmpeg, puts the outcome back. The program lies beside the class. */
public class Video {
    private static final Pattern SIZE = Pattern.compile("Video: .*?, (\\d+)x(\\d+)");
    private static final Pattern FRAMES = Pattern.compile("frame=\\s*(\\d+)");

    public static Map<String, Object> main(Map<String, Object> params) throws IOException, InterruptedException, URISyntaxException {
        Path folder = Files.createTempDirectory(Path.of("/tmp"), "video");
        Path source = folder.resolve("in.mp4");
        Path outcome = folder.resolve("out.mp4");
        try {
            Files.write(source, S3.get("videos/" + params.get("filename")));
            ffmpeg("-i", source.toString(), "-vf", "scale=640:480,setsar=1", "-threads", "1", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-an",
                    outcome.toString());
            byte[] data = Files.readAllBytes(outcome);
            String key = "out/" + UUID.randomUUID() + ".mp4";
            S3.put(key, data);
            // Decodes all of it, to count its frames.
            String said = ffmpeg("-i", outcome.toString(), "-f", "null", "-");
            List<MatchResult> frames = FRAMES.matcher(said).results().toList();
            MatchResult size = SIZE.matcher(said).results().findFirst().orElseThrow();
            return Map.of("key", key, "bytes", data.length, "width", Integer.valueOf(size.group(1)), "height", Integer.valueOf(size.group(2)),
                    "frames", Integer.valueOf(frames.get(frames.size() - 1).group(1)));
        } finally {
            Files.deleteIfExists(source);
            Files.deleteIfExists(outcome);
            Files.delete(folder);
        }
    }

    private static String ffmpeg(String... arguments) throws IOException, InterruptedException, URISyntaxException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(Video.class.getResource("/ffmpeg").toURI()).toString());
        command.addAll(List.of("-hide_banner", "-nostdin", "-y"));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException("ffmpeg: " + said.substring(Math.max(0, said.length() - 500)));
        }
        return said;
    }
}
