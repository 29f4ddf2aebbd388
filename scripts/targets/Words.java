import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * Splits records, counts words, sorts, builds text: what many services in Java do.
 * Loops for ever over the same 1,500 records, made from a fixed seed, and prints the
 * running total of passes.
 */
final class Words {
    private static List<String> lines() {
        Random source = new Random(20260101);
        String[] words = new String[8000];
        for (int i = 0; i < words.length; i++) {
            StringBuilder word = new StringBuilder();
            for (int k = 2 + source.nextInt(9); k > 0; k--) {
                word.append((char) ('a' + source.nextInt(26)));
            }
            words[i] = word.toString();
        }
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < 1500; i++) {
            StringBuilder line = new StringBuilder();
            line.append(i).append(';').append(words[source.nextInt(8000)]).append(';');
            for (int k = 8 + source.nextInt(17); k > 0; k--) {
                line.append(words[(int) (8000 * Math.pow(source.nextDouble(), 3))]).append(' ');
            }
            lines.add(line.toString());
        }
        return lines;
    }

    private static int work(List<String> lines) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Double> scores = new HashMap<>();
        for (String line : lines) {
            String[] fields = line.split(";");
            scores.merge(fields[1], Double.parseDouble(fields[0]), Double::sum);
            for (String word : fields[2].split(" ")) {
                counts.merge(word, 1, Integer::sum);
            }
        }
        List<Map.Entry<String, Integer>> common = new ArrayList<>(counts.entrySet());
        common.sort(Map.Entry.<String, Integer>comparingByValue(Comparator.reverseOrder())
            .thenComparing(Map.Entry.comparingByKey()));
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, Integer> one : common.subList(0, 200)) {
            text.append(one.getKey()).append('=').append(one.getValue()).append(',');
        }
        return text.length() + scores.size();
    }

    public static void main(String[] arguments) {
        List<String> lines = lines();
        int expected = work(lines);
        for (long passes = 1; work(lines) == expected; passes++) {
            System.out.println("passes " + passes);
        }
        System.err.println("Words: a pass gave another result");
        System.exit(1);
    }
}
